"""Reads messages with keys and headers from a body in `avro/binary;version=2`.

Messages of one publisher often have one form: parts of the same lengths, and headers of the same
names. Many such messages are cut at once. Others are read one at a time; short ones need no call of
their own.
"""

from collections.abc import Callable, Generator
from collections.abc import Set as AbstractSet
from functools import lru_cache
from struct import Struct

from tms.core.values.frame import (
    HEADERS_FLAG,
    KEY_FLAG,
    FramedBody,
    encode_fields,
    flags_of,
    frame_start,
)
from tms.wire.avro import AvroReader, invalid
from tms.wire.avro_message import MessageSpans, OtherForm, body_of, spans_of
from tms.wire.bodies import MESSAGES_A_STEP

_EQUAL_RUN_MIN = 4
_SKIPPED_MAX = 1_024
_CUT_MESSAGES = 16
"""Messages of one form that are cut by one call."""
_CUTS_KEPT = 64
_NAMES_KEPT = 1_000
_ABSENT, _PRESENT = 0, 2
"""The branches of a union of null and bytes, and the counts of no header and one."""
_NOT_SHORT = 0x81
"""The bits that are 0 in the byte of a short length."""
_MORE = 0x80
_SHORT_STARTS = tuple(tuple(frame_start(flags, size) for size in range(256)) for flags in range(4))
"""The bytes before the fields of a frame with a payload, by its flags and their size."""


@lru_cache(_CUTS_KEPT)
def _cut_of(before: int, fields: int, between: int, payload: int) -> Callable[..., tuple[bytes]]:
    """Return a function that cuts fields and payloads of `_CUT_MESSAGES` messages from a place."""
    form = f"{before}x{fields}s{between}x{payload}s"
    return Struct(form * _CUT_MESSAGES).unpack_from


class MessagesReader(AvroReader):
    """Reads messages with keys and headers."""

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self._skip = self._skipped = 0
        """How many messages to read before checking again whether they have one form."""
        self._names: set[bytes] = set()
        """Names of single headers, after their lengths, that are known to be UTF-8."""

    def steps(self, messages_max: int, before: int = 0) -> Generator[None, None, list[bytes]]:
        """Return an array of messages with keys and headers, in steps."""
        bodies: list[bytes] = []
        framed: list[int] = []
        step_end = MESSAGES_A_STEP
        while count := self._block(messages_max, before + len(bodies)):
            stop = len(bodies) + count
            while len(bodies) < stop:
                step = min(stop - len(bodies), MESSAGES_A_STEP)
                if not self._add_short(min(step, self._skip), bodies, framed):
                    self._add_message(step, bodies, framed)
                if len(bodies) >= step_end:
                    step_end = len(bodies) + MESSAGES_A_STEP
                    yield
        for index in framed:
            bodies[index] = FramedBody(bodies[index])
        return bodies

    def _add_message(self, remaining: int, bodies: list[bytes], framed: list[int]) -> None:
        """Add the next message; if others of the same form follow, add them too."""
        body, start = self._body, self._at
        try:
            spans = spans_of(body, start)
        except OtherForm:
            self._add_other(bodies, framed)
            return
        except IndexError:
            raise invalid("the body is cut off") from None
        except ValueError as error:
            raise invalid(str(error)) from None
        count = self._equal(spans, start, remaining)
        if spans.name is not None and len(self._names) < _NAMES_KEPT:
            self._names.add(spans.name)
        if spans.flags:
            framed += range(len(bodies), len(bodies) + count)
        size = spans.end - start
        self._at = start + count * size
        if count == 1:
            bodies.append(body_of(body, spans))
            return
        bodies += self._cut(spans, start, count)

    def _cut(self, spans: MessageSpans, start: int, count: int) -> list[bytes]:
        """Return the bodies of messages with one form."""
        body, size = self._body, spans.end - start
        fields, payload = spans.fields_end - spans.fields, spans.end - spans.payload
        head = frame_start(spans.flags, fields) if spans.flags else b""
        if not spans.flags:
            fields = 0
        before, between = spans.fields - start, size - payload - fields - (spans.fields - start)
        cut = _cut_of(before, fields, between, payload)
        pieces: list[bytes] = []
        whole = count - count % _CUT_MESSAGES
        for at in range(start, start + whole * size, _CUT_MESSAGES * size):
            parts = iter(cut(body, at))
            pieces += [head + part + rest for part, rest in zip(parts, parts, strict=True)]
        for by in range(whole * size, count * size, size):
            own_fields = body[spans.fields + by : spans.fields + fields + by]
            pieces.append(head + own_fields + body[spans.payload + by : spans.end + by])
        return pieces

    def _add_short(self, count: int, bodies: list[bytes], framed: list[int]) -> int:
        """Add up to `count` messages with short parts and at most one header; return how many.

        It stops before any other message, valid or not.
        """
        body, at, names, starts = self._body, self._at, self._names, _SHORT_STARTS
        before = len(bodies)
        try:
            while len(bodies) < before + count:
                flags, end, rest = _short_fields(body, at, names)
                payload, stop = _short_payload(body, rest)
                if flags < 0 or stop > len(body):
                    break
                if flags:
                    framed.append(len(bodies))
                    start = starts[flags][end - at - 1]
                    bodies.append(start + body[at + 1 : end] + body[payload:stop])
                else:
                    bodies.append(body[payload:stop])
                at = stop
        except IndexError:
            pass  # It is incomplete, which reading it alone will report.
        self._at = at
        self._skip -= len(bodies) - before
        return len(bodies) - before

    def _equal(self, spans: MessageSpans, start: int, remaining: int) -> int:
        """Return how many messages from `start` on have one form, except for header names.

        It is called less often while it returns one.
        """
        if self._skip:
            self._skip -= 1
            return 1
        body, size = self._body, spans.end - start
        equal = min(remaining, (len(body) - start) // size)
        if equal >= _EQUAL_RUN_MIN:
            stop = start + equal * size
            for first, end in spans.fixed:
                for at in range(first, end):
                    bytes_there = body[at:stop:size]
                    others = bytes_there.lstrip(body[at : at + 1])
                    equal = min(equal, len(bytes_there) - len(others))
        if equal >= _EQUAL_RUN_MIN:
            self._skipped = 0
            return equal
        self._skipped = min(_SKIPPED_MAX, 2 * self._skipped + 1)
        self._skip = self._skipped
        return 1

    def _add_other(self, bodies: list[bytes], framed: list[int]) -> None:
        """Add a message with headers in several blocks, or in one that says its size."""
        key = self.sized() if self.branch(2) else None
        headers: dict[str, bytes] = {}
        for _ in self.items():
            name = self.text()
            if name in headers:
                raise invalid("a header stands twice")
            headers[name] = self.sized()
        payload = self.sized() if self.branch(2) else None
        flags = flags_of(
            has_key=key is not None, has_headers=bool(headers), has_payload=payload is not None
        )
        if flags:
            framed.append(len(bodies))
            fields = encode_fields(key, headers)
            bodies.append(frame_start(flags, len(fields)) + fields + (payload or b""))
        else:
            bodies.append(payload or b"")


_OTHERWISE = (-1, 0, 0)


def _short_fields(body: bytes, at: int, names: AbstractSet[bytes]) -> tuple[int, int, int]:
    """Return the flags of a message at `at`, and where its fields end and its payload begins.

    The flags are negative unless it only has a short key and one short header of a known name.
    """
    end, flags = at + 1, 0
    if body[at] == _PRESENT:
        size = body[end]
        if size & _NOT_SHORT:
            return _OTHERWISE
        end, flags = end + 1 + (size >> 1), KEY_FLAG
    elif body[at] != _ABSENT:
        return _OTHERWISE
    if body[end] == _ABSENT:
        return flags, end, end + 1
    name = end + 1
    name_end = name + 1 + (body[name] >> 1)
    value = body[name_end]
    end = name_end + 2 + (value >> 1)
    is_short = body[name - 1] == _PRESENT and not (body[name] | value) & _NOT_SHORT
    if not is_short or body[name:name_end] not in names or body[end - 1] != _ABSENT:
        return _OTHERWISE
    return flags | HEADERS_FLAG, end, end


def _short_payload(body: bytes, at: int) -> tuple[int, int]:
    """Return where a payload begins and ends; after the body if its length is not short."""
    size, payload = body[at + 1], at + 2
    if size >= _MORE:
        high, payload = body[payload], payload + 1
        if high >= _MORE:
            return payload, len(body) + 1
        size = high << 7 | size & ~_MORE
    is_there = body[at] == _PRESENT and not size & 1
    return payload, payload + (size >> 1) if is_there else len(body) + 1
