"""The limits of one principal: rates, and things at one moment. Pure.

1. Rates (`tms.core.runtime.rates`): requests, messages and bytes published, topics created. The
   amount of a whole second may be used at once; for topics, that of a whole hour.
2. At one moment: connections, waiting polls, bytes of arriving bodies. A single body over the limit
   may arrive if no other body does. If no number is set, each principal has its share
   (`tms.core.runtime.shares`). Transactions in progress, and requests that wait to be written, are
   counted in `tms.transactions` and `tms.messaging`.
3. A refused request costs nothing. A rate of 0 means no limit, and nothing is counted for it.
4. The rates of `PRINCIPALS_MAX` principals are remembered. When full, first drop principals with
   full budgets, then the least recently used ones. Open things are counted separately, as long as
   they are open.

It is for one server: in a cluster, for the leader. It is only used from the event loop's thread.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from tms.core.errors import RateExceeded
from tms.core.limits import Limits, PrincipalLimits
from tms.core.runtime.clock import Clock
from tms.core.runtime.rates import Rate, in_seconds
from tms.core.runtime.shares import Shares

PRINCIPALS_MAX = 10_000
RETRY_AFTER_S = 1
"""After which to ask again for what is limited at once."""
_LIMITS = Limits()
_HOUR_MS = 3600 * 1000
_LOOKED_AT = 50
"""How many are looked at to make room for one."""


@dataclass(frozen=True, slots=True)
class SharedBounds:
    """The bounds of all principals together."""

    connections_max: int = _LIMITS.connections_max
    """Polls that wait too: each has a connection."""
    arriving_bytes_max: int = _LIMITS.queue_bytes_max


class OpenCount:
    """How much of something is open at once, of one principal."""

    __slots__ = ("_setting", "_shares", "principal")

    def __init__(self, setting: str, shares: Shares, principal: str) -> None:
        self._setting = setting
        self._shares = shares
        self.principal = principal

    @property
    def count(self) -> int:
        """How much is open."""
        return self._shares.used_by(self.principal)

    def enter(self, amount: int = 1) -> None:
        """Count so much as open. Raises `RateExceeded` if that is too much beside what is."""
        room, count = self._shares.room(self.principal), self.count
        # By itself it may be over what one may have, not over what there is.
        if amount > room and (count or self._shares.used + amount > self._shares.bound):
            limit = self._shares.each_max or count + room
            raise _exceeded(self._setting, limit, RETRY_AFTER_S)
        self._shares.add(self.principal, amount)

    def enter_anyway(self, amount: int = 1) -> None:
        """Count so much as open, whatever the limit: what was so before it was counted."""
        self._shares.add(self.principal, amount)

    def leave(self, amount: int = 1) -> None:
        """Count so much as open no more."""
        self._shares.add(self.principal, -amount)

    @contextmanager
    def held(self, amount: int = 1) -> Iterator[None]:
        """Count so much as open inside. Raises as `enter`."""
        self.enter(amount)
        try:
            yield
        finally:
            self.leave(amount)


class PrincipalUse:
    """The use of one principal."""

    __slots__ = (
        "_clock",
        "_publish_bytes",
        "_publish_messages",
        "_requests",
        "_topics",
        "arriving_bytes",
        "connections",
        "polls",
    )

    def __init__(self, principal: str, quotas: "Quotas", clock: Clock) -> None:
        limits = quotas.limits
        self._clock = clock
        self._requests = _rate(limits.requests_per_s)
        self._publish_messages = _rate(limits.publish_messages_per_s)
        self._publish_bytes = _rate(limits.publish_bytes_per_s)
        self._topics = _rate(limits.topics_per_hour, _HOUR_MS)
        self.connections = OpenCount("principal_connections_max", quotas.connections, principal)
        self.polls = OpenCount("principal_polls_max", quotas.polls, principal)
        self.arriving_bytes = OpenCount(
            "principal_arriving_bytes_max", quotas.arriving_bytes, principal
        )

    def take_request(self) -> None:
        """Take one request. Raises `RateExceeded`."""
        if self._requests is not None:
            now_ms = self._clock.steady_ms()
            _check(self._requests, 1, now_ms, "principal_requests_per_s")
            self._requests.take(1, now_ms)

    def take_publish(self, messages: int, payload_bytes: int) -> None:
        """Take the publishing of so many messages, of so many bytes. Raises `RateExceeded`."""
        if self._publish_messages is None and self._publish_bytes is None:
            return
        now_ms = self._clock.steady_ms()
        if self._publish_messages is not None:
            setting = "principal_publish_messages_per_s"
            _check(self._publish_messages, messages, now_ms, setting)
        if self._publish_bytes is not None:
            _check(self._publish_bytes, payload_bytes, now_ms, "principal_publish_bytes_per_s")
            self._publish_bytes.take(payload_bytes, now_ms)
        if self._publish_messages is not None:
            self._publish_messages.take(messages, now_ms)

    def take_topic(self) -> None:
        """Take the creation of one topic. Raises `RateExceeded`."""
        if self._topics is not None:
            now_ms = self._clock.steady_ms()
            _check(self._topics, 1, now_ms, "principal_topics_per_hour")
            self._topics.take(1, now_ms)

    @property
    def is_as_new(self) -> bool:
        """Whether there is nothing to know of it but what is open."""
        now_ms = self._clock.steady_ms()
        rates = (self._requests, self._publish_messages, self._publish_bytes, self._topics)
        return all(each is None or each.is_paid(now_ms) for each in rates)


class Quotas:
    """The use of all principals."""

    def __init__(
        self,
        limits: PrincipalLimits,
        clock: Clock,
        bounds: SharedBounds | None = None,
        principals_max: int = PRINCIPALS_MAX,
    ) -> None:
        """Allow each principal `limits`, and all together `bounds`; keep so many at most."""
        bounds = bounds or SharedBounds()
        self.limits = limits
        self.connections = Shares(bounds.connections_max, limits.connections_max)
        self.polls = Shares(bounds.connections_max, limits.polls_max)
        self.arriving_bytes = Shares(bounds.arriving_bytes_max, limits.arriving_bytes_max)
        self._clock = clock
        self._principals_max = principals_max
        self._uses: OrderedDict[str, PrincipalUse] = OrderedDict()
        """Whoever was asked for last is last."""

    def __len__(self) -> int:
        return len(self._uses)

    def of(self, principal: str) -> PrincipalUse:
        """Return what a principal uses. Ask again for each request, as it may be forgotten."""
        use = self._uses.get(principal)
        if use is None:
            if len(self._uses) >= self._principals_max:
                del self._uses[self._least_known()]
            use = self._uses[principal] = PrincipalUse(principal, self, self._clock)
        else:
            self._uses.move_to_end(principal)
        return use

    def _least_known(self) -> str:
        """Return the principal whom to forget."""
        longest_ago = list(islice(self._uses.items(), _LOOKED_AT))
        as_new = (name for name, use in longest_ago if use.is_as_new)
        return next(as_new, longest_ago[0][0])


def _rate(per_period: int, period_ms: int = 1000) -> Rate | None:
    return Rate(per_period, period_ms) if per_period else None


def _check(rate: Rate, amount: int, now_ms: int, setting: str) -> None:
    wait_ms = rate.wait_ms(amount, now_ms)
    if wait_ms > 0:
        raise _exceeded(setting, rate.per_period, in_seconds(wait_ms))


def _exceeded(setting: str, limit: int, retry_after_s: int) -> RateExceeded:
    return RateExceeded(
        "principal_rate_exceeded", setting=setting, limit=limit, retry_after_s=retry_after_s
    )
