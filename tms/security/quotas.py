"""The limits of one principal: rates, and things at one moment. Pure.

1. Rates (`tms.core.runtime.rates`): requests, messages and bytes published, topics created. A whole
   second's amount may be used at once; for topics, a whole hour's.
2. At one moment: connections, waiting polls, bytes of arriving bodies. A single body over the limit
   may arrive if no other body does. If no number is set, each principal has its share
   (`tms.core.runtime.shares`). Transactions in progress, and requests that wait to be written, are
   counted in `tms.transactions` and `tms.messaging`.
3. A refused request costs nothing. A rate of 0 means no limit, and nothing is counted for it.
4. The rates of `PRINCIPALS_MAX` principals are remembered. Beyond that, principals with full
   budgets are dropped first, then the least recently used ones. Open things are counted separately
   while they are open.

Quotas apply to one server: in a cluster, to the leader. Used only from the event loop's thread.
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
"""The seconds after which to try a limit of concurrent use again."""
_LIMITS = Limits()
_HOUR_MS = 3600 * 1000
_LOOKED_AT = 50
"""How many candidates are inspected to make room for one."""


@dataclass(frozen=True, slots=True)
class SharedBounds:
    """The limits for all principals together."""

    connections_max: int = _LIMITS.connections_max
    """Includes waiting polls, because each has a connection."""
    arriving_bytes_max: int = _LIMITS.queue_bytes_max


class OpenCount:
    """One principal's concurrent use of something."""

    __slots__ = ("_setting", "_shares", "principal")

    def __init__(self, setting: str, shares: Shares, principal: str) -> None:
        self._setting = setting
        self._shares = shares
        self.principal = principal

    @property
    def count(self) -> int:
        """The present use."""
        return self._shares.used_by(self.principal)

    def enter(self, amount: int = 1) -> None:
        """Add to the use. Raises `RateExceeded` if it would exceed the limit."""
        room, count = self._shares.room(self.principal), self.count
        # Alone it may exceed the principal's limit, but not the total.
        if amount > room and (count or self._shares.used + amount > self._shares.bound):
            limit = self._shares.each_max or count + room
            raise _exceeded(self._setting, limit, RETRY_AFTER_S)
        self._shares.add(self.principal, amount)

    def enter_anyway(self, amount: int = 1) -> None:
        """Add to the use whatever the limit: for uses that began before they were counted."""
        self._shares.add(self.principal, amount)

    def leave(self, amount: int = 1) -> None:
        """Subtract from the use."""
        self._shares.add(self.principal, -amount)

    @contextmanager
    def held(self, amount: int = 1) -> Iterator[None]:
        """Add to the use inside the block. Raises as `enter`."""
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
        """Take the publishing of messages with a number of bytes. Raises `RateExceeded`."""
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
        """Whether only its open uses need to be remembered."""
        now_ms = self._clock.steady_ms()
        rates = (self._requests, self._publish_messages, self._publish_bytes, self._topics)
        return all(rate is None or rate.is_paid(now_ms) for rate in rates)


class Quotas:
    """The use of all principals."""

    def __init__(
        self,
        limits: PrincipalLimits,
        clock: Clock,
        bounds: SharedBounds | None = None,
        principals_max: int = PRINCIPALS_MAX,
    ) -> None:
        """Limit each principal to `limits`, all to `bounds`; remember `principals_max`."""
        bounds = bounds or SharedBounds()
        self.limits = limits
        self.connections = Shares(bounds.connections_max, limits.connections_max)
        self.polls = Shares(bounds.connections_max, limits.polls_max)
        self.arriving_bytes = Shares(bounds.arriving_bytes_max, limits.arriving_bytes_max)
        self._clock = clock
        self._principals_max = principals_max
        self._uses: OrderedDict[str, PrincipalUse] = OrderedDict()
        """The most recently used principal is last."""

    def __len__(self) -> int:
        return len(self._uses)

    def of(self, principal: str) -> PrincipalUse:
        """Return a principal's use. Call it for each request, because it may be dropped."""
        use = self._uses.get(principal)
        if use is None:
            if len(self._uses) >= self._principals_max:
                del self._uses[self._least_known()]
            use = self._uses[principal] = PrincipalUse(principal, self, self._clock)
        else:
            self._uses.move_to_end(principal)
        return use

    def _least_known(self) -> str:
        """Return the principal to drop."""
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
