"""Bodies as JSON: the records of the Avro schemas, readable.

Message ids are 40 lower-case hexadecimal digits. Bytes (messages, payloads) are a string where they
are UTF-8 text and `{"base64": "…"}` where not; with `application/json; encoding=base64` they are
base64 strings both ways. A transaction is always base64. Avro's tagged unions (`{"long": 5}`) are
taken in requests.
"""

import base64
import binascii
from typing import Any

import msgspec

from tms.core.errors import InvalidRequest, TooLarge
from tms.core.message import MessageBlock, parse_id
from tms.core.messaging import RollbackRange
from tms.wire.bodies import PollRequest, PublishRequest

_INT64_MAX = 2**63 - 1
_encode = msgspec.json.Encoder().encode


class _PublishBody(msgspec.Struct, forbid_unknown_fields=True):
    messages: list[str | dict[str, str]]
    transactionWritePointer: int | dict[str, int] | None = None  # noqa: N815  the schema's name


class _RangeBody(msgspec.Struct, forbid_unknown_fields=True):
    startTimestamp: int  # noqa: N815
    startSequenceId: int  # noqa: N815
    endTimestamp: int  # noqa: N815
    endSequenceId: int  # noqa: N815


class _PublishedBody(msgspec.Struct, forbid_unknown_fields=True):
    transactionWritePointer: int | dict[str, int]  # noqa: N815
    rollbackRange: _RangeBody  # noqa: N815


class _PollBody(msgspec.Struct, forbid_unknown_fields=True):
    startFrom: str | int | dict[str, str | int] | None = None  # noqa: N815
    inclusive: bool = True
    limit: int | dict[str, int] | None = None
    transaction: str | dict[str, str] | None = None


_publish_decoder = msgspec.json.Decoder(_PublishBody)
_published_decoder = msgspec.json.Decoder(_PublishedBody)
_poll_decoder = msgspec.json.Decoder(_PollBody)


def _decode(decoder: Any, body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest("invalid_body", format="json", reason=str(error)) from None


def _untagged(value: Any, *tags: str) -> Any:
    """Return what is inside Avro's tagged form of a union, or `value` where it is not one."""
    if not isinstance(value, dict):
        return value
    if len(value) != 1 or next(iter(value)) not in tags:
        raise InvalidRequest("invalid_body", format="json", expected=" or ".join(tags))
    return next(iter(value.values()))


def _int64(value: Any, name: str) -> int:
    if isinstance(value, str) or not -_INT64_MAX <= value <= _INT64_MAX:
        raise InvalidRequest("invalid_body", format="json", field=name, expected="64-bit number")
    return int(value)


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest("invalid_body", format="json", reason=str(error)) from None


class JsonFormat:
    """`application/json`, bytes as text where they are text, or as base64 throughout."""

    def __init__(self, *, base64_only: bool = False) -> None:
        """Choose how bytes are written; reading takes both, save a string, which is as chosen."""
        self._base64_only = base64_only
        self.content_type = "application/json"
        if base64_only:
            self.content_type += "; encoding=base64"

    def _bytes_of(self, value: str | dict[str, str]) -> bytes:
        if isinstance(value, dict):
            if list(value) == ["bytes"]:
                return self._bytes_of(value["bytes"])
            return _from_base64(_untagged(value, "base64"))
        return _from_base64(value) if self._base64_only else value.encode("utf-8", "surrogatepass")

    def _json_of(self, raw: bytes) -> str | dict[str, str]:
        if not self._base64_only:
            try:
                return raw.decode()
            except UnicodeDecodeError:
                return {"base64": base64.b64encode(raw).decode()}
        return base64.b64encode(raw).decode()

    def decode_publish(self, body: bytes, messages_max: int) -> PublishRequest:
        """Return what a publish or store asks."""
        value = _decode(_publish_decoder, body)
        if len(value.messages) > messages_max:
            raise TooLarge(
                "too_many_messages", count=len(value.messages), request_messages_max=messages_max
            )
        pointer = _untagged(value.transactionWritePointer, "long")
        if pointer is not None:
            pointer = _int64(pointer, "transactionWritePointer")
        return PublishRequest(pointer, [self._bytes_of(message) for message in value.messages])

    def encode_range(self, published: RollbackRange) -> bytes:
        """Return the body that a transactional publish answers."""
        return _encode(
            {
                "transactionWritePointer": published.write_pointer,
                "rollbackRange": {
                    "startTimestamp": published.start_timestamp,
                    "startSequenceId": published.start_sequence_id,
                    "endTimestamp": published.end_timestamp,
                    "endSequenceId": published.end_sequence_id,
                },
            }
        )

    def decode_range(self, body: bytes) -> RollbackRange:
        """Return what a rollback is to roll back."""
        value = _decode(_published_decoder, body)
        bounds = value.rollbackRange
        return RollbackRange(
            _int64(_untagged(value.transactionWritePointer, "long"), "transactionWritePointer"),
            _int64(bounds.startTimestamp, "startTimestamp"),
            _int64(bounds.startSequenceId, "startSequenceId"),
            _int64(bounds.endTimestamp, "endTimestamp"),
            _int64(bounds.endSequenceId, "endSequenceId"),
        )

    def decode_poll(self, body: bytes) -> PollRequest:
        """Return what a poll asks. An empty body asks for the oldest messages."""
        value = _decode(_poll_decoder, body or b"{}")
        start = _untagged(value.startFrom, "bytes", "long")
        start = parse_id(start) if isinstance(start, str) else start
        limit = _untagged(value.limit, "int")
        transaction = _untagged(value.transaction, "bytes")
        return PollRequest(
            start if start is None or isinstance(start, bytes) else _int64(start, "startFrom"),
            value.inclusive,
            limit if limit is None else _int64(limit, "limit"),
            transaction if transaction is None else _from_base64(transaction),
        )

    def encode_block(self, block: MessageBlock, *, first: bool) -> bytes:
        """Return the messages as elements of the answer's array."""
        rows = _encode([{"id": m.id.hex(), "payload": self._json_of(m.payload)} for m in block])
        return (b"[" if first else b",") + rows[1:-1]

    def encode_end(self, *, first: bool) -> bytes:
        """Return the end of the answer's array."""
        return b"[]" if first else b"]"


JSON = JsonFormat()
JSON_BASE64 = JsonFormat(base64_only=True)
