"""Decides whether messages may be published, by the limits of the server and of the namespace.

A rate holds on average (`tms.core.runtime.rates`): a namespace may publish one second's amount at
once. A refused publish costs nothing; the cost is not refunded if the write fails.

Used from the event loop's thread alone.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter

from tms.core.errors import InvalidRequest, RateExceeded, TooLarge, TransactionExpired
from tms.core.limits import INT64_MAX, MS_PER_S, WRITE_POINTERS_PER_MS, Limits
from tms.core.runtime.clock import Clock
from tms.core.runtime.rates import Rate, in_seconds
from tms.core.values.avro_lengths import read_length
from tms.core.values.frame import (
    HEADERS_FLAG,
    KEY_FLAG,
    NO_PAYLOAD_FLAG,
    frame_parts,
    framed_of,
    read_frame,
)
from tms.core.values.namespaces import NamespaceRules
from tms.core.values.topic import TopicId, parse_properties
from tms.core.values.varints import MORE_FOLLOWS

_SHORT_FRAME_BYTES = 63
"""The greatest length that fits into one byte."""
_WITHOUT_BOTH = frozenset((NO_PAYLOAD_FLAG, NO_PAYLOAD_FLAG | HEADERS_FLAG))
"""The flags of frames without payload and key."""


def _check_frames(bodies: Sequence[bytes], limits: Limits) -> None:
    """Raise `TooLarge` if a message's key and headers are too large, or too many.

    Raises `InvalidRequest` (payload_required) if one has neither payload nor key.
    """
    framed = framed_of(bodies)
    least_max = min(limits.frame_bytes_max, 2 * limits.message_headers_max)
    frames = [bodies[index] for index in framed]
    longest = max(map(itemgetter(0), frames), default=0)
    are_short = longest < MORE_FOLLOWS and least_max >= _SHORT_FRAME_BYTES
    # If they are, every length takes one byte.
    if are_short and _WITHOUT_BOTH.isdisjoint(map(itemgetter(1), frames)):
        return
    for index, body in zip(framed, frames, strict=True):
        size, start = read_length(body, 0)
        if body[start] in _WITHOUT_BOTH:
            raise InvalidRequest("payload_required", index=index)
        if size > limits.frame_bytes_max:
            raise TooLarge(
                "frame_too_large", index=index, bytes=size, frame_bytes_max=limits.frame_bytes_max
            )
        # A header takes at least two bytes, so few frames can have too many.
        if size > 2 * limits.message_headers_max:
            headers = len(read_frame(body).headers)
            if headers > limits.message_headers_max:
                raise TooLarge(
                    "too_many_headers",
                    index=index,
                    headers=headers,
                    message_headers_max=limits.message_headers_max,
                )


def check_keys(bodies: Sequence[bytes]) -> None:
    """Raise `InvalidRequest` (key_required) if a message has no key."""
    framed = framed_of(bodies)
    keyed = [index for index in framed if frame_parts(bodies[index])[0] & KEY_FLAG]
    if len(keyed) < len(bodies):
        raise InvalidRequest("key_required", index=min(set(range(len(bodies))) - set(keyed)))


def _largest(payloads: Sequence[bytes], total: int, bytes_max: int) -> int | None:
    """Return the size of the largest payload if it is over `bytes_max`; `total` is their sum."""
    if total <= bytes_max:
        return None
    largest = max(map(len, payloads))
    return largest if largest > bytes_max else None


class _Rates:
    """The rates of one namespace, by the rules it had when this was created."""

    def __init__(self, rules: NamespaceRules) -> None:
        self.rules = rules
        named = ("publish_messages_per_s", "publish_bytes_per_s")
        limits = ((name, getattr(rules, name)) for name in named)
        self._rates = {name: Rate(per_s) for name, per_s in limits if per_s is not None}

    def take(self, namespace: str, messages: int, total_bytes: int, now_ms: int) -> None:
        """Take a publish. Raises `RateExceeded`."""
        amounts = {"publish_messages_per_s": messages, "publish_bytes_per_s": total_bytes}
        for name, rate in self._rates.items():
            wait_ms = rate.wait_ms(amounts[name], now_ms)
            if wait_ms > 0:
                raise RateExceeded(
                    namespace=namespace,
                    retry_after_s=in_seconds(wait_ms),
                    **{name: rate.per_period},
                )
        for name, rate in self._rates.items():
            rate.take(amounts[name], now_ms)


class Admission:
    """Decides whether to accept each publish, and the properties of each topic."""

    def __init__(
        self, limits: Limits, clock: Clock, declared: Mapping[str, NamespaceRules]
    ) -> None:
        """Apply `declared`, the current rules of the namespaces that have any."""
        self._limits = limits
        self._clock = clock
        self._declared = declared
        self._rates: dict[str, _Rates] = {}

    def payload_bytes(self, namespace: str, payloads: Sequence[bytes]) -> int:
        """Return the bytes of all payloads together.

        Raises `TooLarge`, `RateExceeded`, and `InvalidRequest` (payload_required).
        """
        limits = self._limits
        if len(payloads) > limits.request_messages_max:
            raise TooLarge(
                "too_many_messages",
                count=len(payloads),
                request_messages_max=limits.request_messages_max,
            )
        total = len(payloads[0]) if len(payloads) == 1 else sum(map(len, payloads))
        largest = _largest(payloads, total, limits.message_bytes_max)
        if largest is not None:
            raise TooLarge(
                "message_too_large", bytes=largest, message_bytes_max=limits.message_bytes_max
            )
        if total > limits.request_bytes_max:
            raise TooLarge(
                "request_too_large", bytes=total, request_bytes_max=limits.request_bytes_max
            )
        if framed_of(payloads):
            _check_frames(payloads, limits)
        rules = self._declared.get(namespace)
        if rules is not None:
            self._check_sizes(namespace, rules, payloads, total)
            self._rates_of(namespace, rules).take(
                namespace, len(payloads), total, self._clock.steady_ms()
            )
        return total

    @staticmethod
    def write_pointer(write_pointer: int) -> None:
        """Raise `InvalidRequest` if it cannot be a write pointer."""
        if not 0 < write_pointer <= INT64_MAX:
            raise InvalidRequest("invalid_write_pointer", write_pointer=write_pointer)

    def age_s(self, write_pointer: int) -> float:
        """Return the age of another manager's pointer, which is a time."""
        return self._clock.now_ms() / MS_PER_S - write_pointer / WRITE_POINTERS_PER_MS / MS_PER_S

    def check_age(self, write_pointer: int) -> None:
        """Raise `TransactionExpired` if a pointer is a time past the longest lifetime.

        Only write pointers of another manager are refused by their age. Our own manager knows
        the state of its own.
        """
        age_ms = self._clock.expiry_ms() - write_pointer // WRITE_POINTERS_PER_MS
        lifetime_s_max = self._limits.transaction_lifetime_s_max
        if age_ms >= lifetime_s_max * MS_PER_S:
            raise TransactionExpired(
                write_pointer=write_pointer,
                age_s=age_ms // MS_PER_S,
                transaction_lifetime_s_max=lifetime_s_max,
            )

    def all_payloads(self, publications: Mapping[TopicId, Sequence[bytes]]) -> None:
        """Check a publish to several topics as one, per namespace. Raises as `payload_bytes`."""
        by_namespace: dict[str, list[bytes]] = {}
        for topic_id, payloads in publications.items():
            _check_frames(payloads, self._limits)
            by_namespace.setdefault(topic_id.namespace, []).extend(payloads)
        for namespace, payloads in by_namespace.items():
            self.payload_bytes(namespace, payloads)

    def _check_sizes(
        self, namespace: str, rules: NamespaceRules, payloads: Sequence[bytes], total: int
    ) -> None:
        largest = _largest(payloads, total, rules.message_bytes_max)
        if largest is not None:
            raise TooLarge(
                "message_over_namespace_limit",
                namespace=namespace,
                bytes=largest,
                message_bytes_max=rules.message_bytes_max,
            )
        if total > rules.request_bytes_max:
            raise TooLarge(
                "request_over_namespace_limit",
                namespace=namespace,
                bytes=total,
                request_bytes_max=rules.request_bytes_max,
            )

    def _rates_of(self, namespace: str, rules: NamespaceRules) -> _Rates:
        rates = self._rates.get(namespace)
        if rates is None or rates.rules is not rules:
            self._rates = {name: r for name, r in self._rates.items() if name in self._declared}
            rates = self._rates[namespace] = _Rates(rules)
        return rates

    def properties(
        self, namespace: str, properties: Mapping[str, object] | None
    ) -> tuple[int, dict[str, str]]:
        """Return the ttl in seconds, and the other properties of a topic.

        Raises `InvalidRequest` (invalid_properties, invalid_ttl, ttl_over_namespace_limit),
        `TooLarge` (topic_properties_too_large).
        """
        properties_max = self._limits.topic_properties_max
        if isinstance(properties, Mapping) and len(properties) > properties_max:
            raise TooLarge(
                "topic_properties_too_large",
                properties=len(properties),
                topic_properties_max=properties_max,
            )
        rules = self._declared.get(namespace)
        default = self._limits.ttl_s_default if rules is None else rules.ttl_s_default
        ttl_s, others = parse_properties(properties, default)
        self._check_properties_size(others)
        if rules is not None and ttl_s > rules.ttl_s_max:
            raise InvalidRequest(
                "ttl_over_namespace_limit",
                namespace=namespace,
                ttl=ttl_s,
                ttl_s_max=rules.ttl_s_max,
            )
        return ttl_s, others

    def _check_properties_size(self, properties: Mapping[str, str]) -> None:
        size = sum(len(name.encode()) + len(value.encode()) for name, value in properties.items())
        if size > self._limits.topic_properties_bytes_max:
            raise TooLarge(
                "topic_properties_too_large",
                bytes=size,
                topic_properties_bytes_max=self._limits.topic_properties_bytes_max,
            )
