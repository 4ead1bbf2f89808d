"""How much one principal may: by time, and at once. Pure.

1. By time (`tms.core.rates`): requests, messages and bytes published, topics created. A whole
   second's worth may be taken at once, of topics a whole hour's.
2. At once: connections, polls that wait, bytes of bodies that arrive. A body that is over the limit
   by itself may arrive if none else does. Transactions in progress are counted by those who start
   them (`tms.transactions`).
3. What is refused costs nothing. A limit of 0 is none, and nothing is counted for it.
4. `PRINCIPALS_MAX` principals are kept. To make room, those go first of whom there is nothing to
   know; then, asked longest ago, those who have nothing open. What is open is left behind then.

It is for one server: in a cluster, that which leads. Used from the event loop's thread alone.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from itertools import islice

from tms.core.clock import Clock
from tms.core.errors import RateExceeded
from tms.core.rates import Rate, in_seconds

PRINCIPALS_MAX = 10_000
RETRY_AFTER_S = 1
"""After which to ask again for what is limited at once."""
_HOUR_MS = 3600 * 1000
_LOOKED_AT = 50
"""How many are looked at to make room for one."""


@dataclass(frozen=True, slots=True)
class PrincipalLimits:
    """What one principal may; 0 is no limit. Named as the settings are, less `principal_`."""

    requests_per_s: int = 0
    publish_bytes_per_s: int = 0
    publish_messages_per_s: int = 0
    connections_max: int = 0
    polls_max: int = 0
    arriving_bytes_max: int = 0
    topics_per_hour: int = 0

    @property
    def are_any(self) -> bool:
        """Whether anything is limited."""
        return any(astuple(self))


class OpenCount:
    """How much of something is open at once, of one principal."""

    __slots__ = ("_limit", "_setting", "count")

    def __init__(self, setting: str, limit: int) -> None:
        self._setting = setting
        self._limit = limit
        self.count = 0

    def enter(self, amount: int = 1) -> None:
        """Count so much as open. Raises `RateExceeded` if that is too much beside what is."""
        if not self._limit:
            return
        if self.count and self.count + amount > self._limit:
            raise _exceeded(self._setting, self._limit, RETRY_AFTER_S)
        self.count += amount

    def enter_anyway(self, amount: int = 1) -> None:
        """Count so much as open, whatever the limit: what was so before it was counted."""
        if self._limit:
            self.count += amount

    def leave(self, amount: int = 1) -> None:
        """Count so much as open no more."""
        self.count = max(0, self.count - amount)

    @contextmanager
    def held(self, amount: int = 1) -> Iterator[None]:
        """Count so much as open inside. Raises as `enter`."""
        self.enter(amount)
        try:
            yield
        finally:
            self.leave(amount)


class PrincipalUse:
    """What one principal uses."""

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

    def __init__(self, limits: PrincipalLimits, clock: Clock) -> None:
        self._clock = clock
        self._requests = _rate(limits.requests_per_s)
        self._publish_messages = _rate(limits.publish_messages_per_s)
        self._publish_bytes = _rate(limits.publish_bytes_per_s)
        self._topics = _rate(limits.topics_per_hour, _HOUR_MS)
        self.connections = OpenCount("principal_connections_max", limits.connections_max)
        self.polls = OpenCount("principal_polls_max", limits.polls_max)
        self.arriving_bytes = OpenCount("principal_arriving_bytes_max", limits.arriving_bytes_max)

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
    def has_open(self) -> bool:
        """Whether anything of it is open."""
        counts = (self.connections, self.polls, self.arriving_bytes)
        return any(each.count for each in counts)

    @property
    def is_as_new(self) -> bool:
        """Whether there is nothing to know of it."""
        now_ms = self._clock.steady_ms()
        rates = (self._requests, self._publish_messages, self._publish_bytes, self._topics)
        return not self.has_open and all(each is None or each.is_paid(now_ms) for each in rates)


class Quotas:
    """What all principals use."""

    def __init__(
        self, limits: PrincipalLimits, clock: Clock, principals_max: int = PRINCIPALS_MAX
    ) -> None:
        """Allow each principal `limits`; keep so many at most."""
        self._limits = limits
        self._clock = clock
        self._principals_max = principals_max
        self._unlimited = None if limits.are_any else PrincipalUse(limits, clock)
        self._uses: OrderedDict[str, PrincipalUse] = OrderedDict()
        """Whoever was asked for last is last."""

    def __len__(self) -> int:
        return len(self._uses)

    def of(self, principal: str) -> PrincipalUse:
        """Return what a principal uses. Ask again for each request, as it may be forgotten."""
        if self._unlimited is not None:
            return self._unlimited
        use = self._uses.get(principal)
        if use is None:
            if len(self._uses) >= self._principals_max:
                del self._uses[self._least_known()]
            use = self._uses[principal] = PrincipalUse(self._limits, self._clock)
        else:
            self._uses.move_to_end(principal)
        return use

    def _least_known(self) -> str:
        """Return the principal whom to forget."""
        longest_ago = list(islice(self._uses.items(), _LOOKED_AT))
        as_new = (name for name, use in longest_ago if use.is_as_new)
        with_nothing_open = (name for name, use in longest_ago if not use.has_open)
        return next(as_new, None) or next(with_nothing_open, longest_ago[0][0])


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
