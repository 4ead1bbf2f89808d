"""Bodies as JSON: the records of the Avro schemas, readable. How values stand: `json_values`."""

from collections.abc import Generator, Sequence
from contextlib import suppress

import msgspec

from tms.core.message import MessageBlock, check_start_ms, parse_id
from tms.core.messaging import Published, RollbackRange
from tms.wire.bodies import MESSAGES_A_STEP, PollRequest, PublishRequest, last_of
from tms.wire.caps import messages_cap
from tms.wire.json_ranges import Isolation
from tms.wire.json_subscriptions import JsonSubscriptions
from tms.wire.json_transactions import JsonTransactions
from tms.wire.json_values import (
    JsonBytes,
    bytes_of,
    decode,
    encode,
    from_base64,
    int64,
    json_of,
    untagged,
)
from tms.wire.media_types import BASE64_TYPE, JSON_TYPE


class _PublishBody(msgspec.Struct, forbid_unknown_fields=True):
    messages: list[JsonBytes]
    transactionWritePointer: int | dict[str, int] | None = None  # noqa: N815  the schema's name


class _RangeBody(msgspec.Struct, forbid_unknown_fields=True):
    startTimestamp: int  # noqa: N815
    startSequenceId: int  # noqa: N815
    endTimestamp: int  # noqa: N815
    endSequenceId: int  # noqa: N815


class _PublishedBody(msgspec.Struct, forbid_unknown_fields=True):
    transactionWritePointer: int | dict[str, int]  # noqa: N815
    rollbackRange: _RangeBody  # noqa: N815
    messages: int = 0
    """Told of what was published as Arrow; a rollback has no use for it."""
    ids: list[str] = []
    """Told where they were asked for; as above."""


class _PollBody(msgspec.Struct, forbid_unknown_fields=True):
    startFrom: str | int | dict[str, str | int] | None = None  # noqa: N815
    inclusive: bool = True
    limit: int | dict[str, int] | None = None
    transaction: str | dict[str, str] | None = None
    end: str | None = None
    isolation: Isolation | None = None


_publish_decoder = msgspec.json.Decoder(_PublishBody)
_published_decoder = msgspec.json.Decoder(_PublishedBody)
_poll_decoder = msgspec.json.Decoder(_PollBody)


class JsonFormat:
    """`application/json`, bytes as text where they are text, or as base64 throughout."""

    def __init__(self, *, base64_only: bool = False) -> None:
        """Choose how bytes are written; reading takes both, save a string, which is as chosen."""
        self._base64_only = base64_only
        self.content_type = BASE64_TYPE if base64_only else JSON_TYPE
        self.joined_messages = 0
        self.transactions = JsonTransactions(base64_only=base64_only)
        self.subscriptions = JsonSubscriptions()

    def decode_publish(self, body: bytes, messages_max: int) -> PublishRequest:
        """Return what a publish or store asks."""
        return last_of(self.publish_steps(body, messages_max))

    def publish_steps(
        self, body: bytes, messages_max: int
    ) -> Generator[None, None, PublishRequest]:
        """Return what a publish or store asks, in steps that others may have their turn between."""
        value = decode(_publish_decoder, body)
        messages = value.messages
        messages_cap(messages_max).check(len(messages))
        pointer = untagged(value.transactionWritePointer, "long")
        if pointer is not None:
            pointer = int64(pointer, "transactionWritePointer")
        base64_only = self._base64_only
        payloads: list[bytes] = []
        for start in range(0, len(messages), MESSAGES_A_STEP):
            if start:
                yield
            some = messages[start : start + MESSAGES_A_STEP]
            payloads += [bytes_of(message, base64_only=base64_only) for message in some]
        return PublishRequest(pointer, payloads)

    def encode_range(self, published: RollbackRange) -> bytes:
        """Return the body that a transactional publish answers."""
        return encode(_range_record(published))

    def encode_published(self, published: Published) -> bytes:
        """Return the body that a publish answers that is asked for ids."""
        return encode(_published_record(published, with_ids=True))

    def decode_range(self, body: bytes) -> RollbackRange:
        """Return what a rollback is to roll back."""
        value = decode(_published_decoder, body)
        bounds = value.rollbackRange
        return RollbackRange(
            int64(untagged(value.transactionWritePointer, "long"), "transactionWritePointer"),
            int64(bounds.startTimestamp, "startTimestamp"),
            int64(bounds.startSequenceId, "startSequenceId"),
            int64(bounds.endTimestamp, "endTimestamp"),
            int64(bounds.endSequenceId, "endSequenceId"),
        )

    def decode_poll(self, body: bytes) -> PollRequest:
        """Return what a poll asks. An empty body asks for the oldest messages."""
        value = decode(_poll_decoder, body or b"{}")
        start = untagged(value.startFrom, "bytes", "long")
        start = parse_id(start) if isinstance(start, str) else start
        limit = untagged(value.limit, "int")
        transaction = untagged(value.transaction, "bytes")
        return PollRequest(
            start
            if start is None or isinstance(start, bytes)
            else check_start_ms(int64(start, "startFrom")),
            value.inclusive,
            limit if limit is None else int64(limit, "limit"),
            transaction if transaction is None else from_base64(transaction),
            None if value.end is None else parse_id(value.end),
            value.isolation,
        )

    def encode_block(self, block: MessageBlock, *, first: bool) -> bytes:
        """Return the messages as elements of the answer's array."""
        ids, payloads = block.columns()
        rows = encode(
            [
                {"id": message_id.hex(), "payload": text}
                for message_id, text in zip(ids, self._all_json_of(payloads), strict=True)
            ]
        )
        return (b"[" if first else b",") + rows[1:-1]

    def _all_json_of(self, payloads: Sequence[bytes]) -> Sequence[JsonBytes]:
        if not self._base64_only:
            # Most are text, all of them.
            with suppress(UnicodeDecodeError):
                return [payload.decode() for payload in payloads]
        return [json_of(payload, base64_only=self._base64_only) for payload in payloads]

    def encode_end(self, *, first: bool) -> bytes:
        """Return the end of the answer's array."""
        return b"[]" if first else b"]"


def _range_record(published: RollbackRange) -> dict[str, object]:
    return {
        "transactionWritePointer": published.write_pointer,
        "rollbackRange": {
            "startTimestamp": published.start_timestamp,
            "startSequenceId": published.start_sequence_id,
            "endTimestamp": published.end_timestamp,
            "endSequenceId": published.end_sequence_id,
        },
    }


def _published_record(published: Published, *, with_ids: bool) -> dict[str, object]:
    written = published.rollback_range
    record = {} if written is None else _range_record(written)
    return {"ids": [each.hex() for each in published], **record} if with_ids else record


def encode_written(count: int, published: Published, *, with_ids: bool = False) -> bytes:
    """Return the answer to a publish or store of so many messages as Arrow."""
    return encode({**_published_record(published, with_ids=with_ids), "messages": count})


JSON = JsonFormat()
JSON_BASE64 = JsonFormat(base64_only=True)
