"""Bodies of transactions, and of a publish to several topics, as JSON."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from tms.core.message import parse_id
from tms.core.messaging import AllPublished, Stored
from tms.core.subscriptions import Advance
from tms.core.topic import TopicId
from tms.core.transaction import TransactionType
from tms.core.transactions import IfOpen, StartRequest
from tms.wire.caps import Cap
from tms.wire.json_values import Int64, JsonBytes, bytes_of, decode, encode
from tms.wire.transaction_bodies import (
    CommitRequest,
    PublishAllRequest,
    StartedTransaction,
    Truncation,
    check_truncation,
)

TYPES = {"short": TransactionType.SHORT, "long": TransactionType.LONG}
_DEFAULT_START = StartRequest()


class _StartBody(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["short", "long"] = "short"
    timeout_s: Int64 | None = None
    client: str = ""
    owner: str | None = None
    sequence: Int64 | None = None
    origin: str | None = None
    if_open: IfOpen = IfOpen.REFUSE


class _StartedBody(msgspec.Struct, omit_defaults=True):
    transaction_id: int
    write_pointer: int
    read_pointer: int
    transaction: bytes | None = None
    """msgspec writes bytes as base64."""


class _ChangesBody(msgspec.Struct, forbid_unknown_fields=True):
    changes: list[JsonBytes]


class _AdvanceBody(msgspec.Struct, forbid_unknown_fields=True):
    namespace: str
    topic: str
    subscription: str
    after: str
    expected_version: Int64


class _StoredBody(msgspec.Struct, forbid_unknown_fields=True):
    namespace: str
    topic: str
    write_pointer: Int64


class _CommitBody(msgspec.Struct, forbid_unknown_fields=True):
    advances: list[_AdvanceBody] = []
    publish: list[_StoredBody] = []


class _TruncationBody(msgspec.Struct, forbid_unknown_fields=True):
    ids: list[Int64] | None = None
    before_ms: Int64 | None = None


class _PublishAllBody(msgspec.Struct, forbid_unknown_fields=True):
    topics: dict[str, list[JsonBytes]]
    owner: str | None = None
    sequence: Int64 | None = None


_start_decoder = msgspec.json.Decoder(_StartBody)
_changes_decoder = msgspec.json.Decoder(_ChangesBody)
_commit_decoder = msgspec.json.Decoder(_CommitBody)
_truncation_decoder = msgspec.json.Decoder(_TruncationBody)
_publish_all_decoder = msgspec.json.Decoder(_PublishAllBody)


class JsonTransactions:
    """`application/json` of transactions, as the server uses it."""

    def __init__(self, *, base64_only: bool) -> None:
        """Choose how the strings of changes and messages are read, as `JsonFormat` does."""
        self._base64_only = base64_only

    def _all_bytes_of(self, values: Sequence[JsonBytes]) -> list[bytes]:
        base64_only = self._base64_only
        return [bytes_of(value, base64_only=base64_only) for value in values]

    def decode_start(self, body: bytes) -> StartRequest:
        """Return what a start asks. An empty body asks for the defaults."""
        if not body:
            return _DEFAULT_START
        value = decode(_start_decoder, body)
        return StartRequest(
            type=TYPES[value.type],
            timeout_s=value.timeout_s,
            client=value.client,
            owner=value.owner,
            sequence=value.sequence,
            origin=value.origin,
            if_open=value.if_open,
        )

    def encode_started(self, answer: StartedTransaction) -> bytes:
        """Return the answer to start and to checkpoint."""
        return encode(_StartedBody(*answer))

    def decode_changes(self, body: bytes, cap: Cap) -> Sequence[bytes]:
        """Return the changes of a can-commit. Raises `TooLarge`."""
        changes = decode(_changes_decoder, body).changes
        cap.check(len(changes))
        return self._all_bytes_of(changes)

    def decode_commit(self, body: bytes) -> CommitRequest:
        """Return what a commit moves and publishes."""
        if not body:
            return CommitRequest()
        value = decode(_commit_decoder, body)
        advances = [
            Advance(
                TopicId(advance.namespace, advance.topic),
                advance.subscription,
                parse_id(advance.after),
                advance.expected_version,
            )
            for advance in value.advances
        ]
        publish = [
            Stored(TopicId(stored.namespace, stored.topic), stored.write_pointer)
            for stored in value.publish
        ]
        return CommitRequest(advances, publish)

    def encode_status(self, status: str) -> bytes:
        """Return the answer to an abort."""
        return encode({"status": status})

    def decode_truncation(self, body: bytes) -> Truncation:
        """Return what is to be taken off the invalid list, checked."""
        value = decode(_truncation_decoder, body)
        return check_truncation(Truncation(value.ids, value.before_ms))

    def encode_truncated(self, count: int) -> bytes:
        """Return the answer to a truncation."""
        return encode({"truncated": count})

    def decode_publish_all(self, body: bytes, cap: Cap) -> PublishAllRequest:
        """Return what a publish to several topics asks. Raises `TooLarge`."""
        value = decode(_publish_all_decoder, body)
        cap.check(sum(map(len, value.topics.values())))
        topics = {name: self._all_bytes_of(messages) for name, messages in value.topics.items()}
        return PublishAllRequest(topics, value.owner, value.sequence)

    def encode_published_all(self, published: AllPublished) -> bytes:
        """Return the answer to it."""
        return encode(
            {"transaction_id": published.write_pointer, "duplicate": published.is_duplicate}
        )
