"""Bodies of transactions and subscriptions as raw Avro binary: our own schemas, no CDAP has them.

The fields have the names and the order of the JSON bodies. Strings that have few values are enums.
"""

from collections.abc import Callable, Sequence
from typing import Any

import fastavro

from tms.core.commits import NOTHING, CommitRequest, Stored
from tms.core.message import check_id
from tms.core.messaging import AllPublished
from tms.core.subscriptions import Advance
from tms.core.topic import TopicId
from tms.core.transaction import TransactionType
from tms.core.transactions import IfOpen, StartRequest, TransactionStatus
from tms.wire.avro import AvroReader, bytes_array, invalid
from tms.wire.avro import decode as decode_by
from tms.wire.avro import encode as encode_by
from tms.wire.caps import Cap
from tms.wire.transaction_bodies import (
    PublishAllRequest,
    StartedTransaction,
    Truncation,
    check_truncation,
)

_TYPES = (TransactionType.SHORT, TransactionType.LONG)
_IF_OPEN = tuple(IfOpen)
_ENDED = (TransactionStatus.ABORTED, TransactionStatus.INVALID)


def _record(name: str, /, **fields: object) -> dict[str, Any]:
    described = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": described}


def _enum(name: str, /, *symbols: str) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols)}


_BYTES_ARRAY = {"type": "array", "items": "bytes"}

START_SCHEMA = _record(
    "StartRequest",
    type=_enum("TransactionType", *(kind.name.lower() for kind in _TYPES)),
    timeout_s=["long", "null"],
    client="string",
    owner=["string", "null"],
    sequence=["long", "null"],
    origin=["string", "null"],
    if_open=_enum("IfOpen", *_IF_OPEN),
)
STARTED_SCHEMA = _record(
    "StartedTransaction",
    transaction_id="long",
    write_pointer="long",
    read_pointer="long",
    transaction=["bytes", "null"],
)
CHANGES_SCHEMA = _record("CanCommitRequest", changes=_BYTES_ARRAY)
COMMIT_SCHEMA = _record(
    "CommitRequest",
    advances={
        "type": "array",
        "items": _record(
            "Advance",
            namespace="string",
            topic="string",
            subscription="string",
            after="bytes",
            expected_version="long",
        ),
    },
    publish={
        "type": "array",
        "items": _record("Stored", namespace="string", topic="string", write_pointer="long"),
    },
)
STATUS_SCHEMA = _record("EndedTransaction", status=_enum("EndedStatus", *_ENDED))
TRUNCATION_SCHEMA = _record(
    "TruncateRequest",
    ids=[{"type": "array", "items": "long"}, "null"],
    before_ms=["long", "null"],
)
TRUNCATED_SCHEMA = _record("TruncateResponse", truncated="long")
PUBLISH_ALL_SCHEMA = _record(
    "PublishAllRequest",
    topics={
        "type": "array",
        "items": _record("TopicMessages", topic="string", messages=_BYTES_ARRAY),
    },
    owner=["string", "null"],
    sequence=["long", "null"],
)
PUBLISHED_ALL_SCHEMA = _record("PublishAllResponse", transaction_id="long", duplicate="boolean")
POSITION_SCHEMA = _record("SubscriptionRequest", after=["bytes", "null"])
MOVE_SCHEMA = _record("AdvanceRequest", after="bytes", expected_version="long")
SUBSCRIPTION_SCHEMA = _record(
    "Subscription", name="string", after=["bytes", "null"], version="long"
)

_START = fastavro.parse_schema(START_SCHEMA)
_STARTED = fastavro.parse_schema(STARTED_SCHEMA)
_COMMIT = fastavro.parse_schema(COMMIT_SCHEMA)
_STATUS = fastavro.parse_schema(STATUS_SCHEMA)
_TRUNCATION = fastavro.parse_schema(TRUNCATION_SCHEMA)
_TRUNCATED = fastavro.parse_schema(TRUNCATED_SCHEMA)
_PUBLISH_ALL = fastavro.parse_schema(PUBLISH_ALL_SCHEMA)
_PUBLISHED_ALL = fastavro.parse_schema(PUBLISHED_ALL_SCHEMA)

_DEFAULT_START = StartRequest()


class AvroTransactions:
    """`avro/binary` of transactions, both ways."""

    def encode_start(self, request: StartRequest) -> bytes:
        """Return the body of a start, for the client."""
        return encode_by(
            _START,
            {
                "type": request.type.name.lower(),
                "timeout_s": request.timeout_s,
                "client": request.client,
                "owner": request.owner,
                "sequence": request.sequence,
                "origin": request.origin,
                "if_open": str(request.if_open),
            },
        )

    def decode_start(self, body: bytes) -> StartRequest:
        """Return what a start asks. An empty body asks for the defaults."""
        if not body:
            return _DEFAULT_START
        value = decode_by(_START, body)
        return StartRequest(
            type=TransactionType[value["type"].upper()],
            timeout_s=value["timeout_s"],
            client=value["client"],
            owner=value["owner"],
            sequence=value["sequence"],
            origin=value["origin"],
            if_open=IfOpen(value["if_open"]),
        )

    def encode_started(self, answer: StartedTransaction) -> bytes:
        """Return the answer to start and to checkpoint."""
        return encode_by(_STARTED, answer._asdict())

    def decode_started(self, body: bytes) -> StartedTransaction:
        """Return what a start or a checkpoint answered, for the client."""
        return StartedTransaction(**decode_by(_STARTED, body))

    def encode_changes(self, changes: Sequence[bytes]) -> bytes:
        """Return the body of a can-commit, for the client."""
        return bytes_array(changes)

    def decode_changes(self, body: bytes, cap: Cap) -> Sequence[bytes]:
        """Return the changes of a can-commit. Raises `TooLarge`."""
        reader = AvroReader(body)
        changes = reader.bytes_array(cap)
        reader.end()
        return changes

    def encode_commit(self, request: CommitRequest) -> bytes:
        """Return the body of a commit, for the client."""
        return encode_by(
            _COMMIT,
            {
                "advances": [
                    {
                        "namespace": advance.topic_id.namespace,
                        "topic": advance.topic_id.name,
                        "subscription": advance.name,
                        "after": advance.after,
                        "expected_version": advance.expected_version,
                    }
                    for advance in request.advances
                ],
                "publish": [
                    {
                        "namespace": stored.topic_id.namespace,
                        "topic": stored.topic_id.name,
                        "write_pointer": stored.write_pointer,
                    }
                    for stored in request.publish
                ],
            },
        )

    def decode_commit(self, body: bytes) -> CommitRequest:
        """Return what a commit moves and publishes."""
        if not body:
            return NOTHING
        value = decode_by(_COMMIT, body)
        advances = [
            Advance(
                TopicId(advance["namespace"], advance["topic"]),
                advance["subscription"],
                check_id(advance["after"]),
                advance["expected_version"],
            )
            for advance in value["advances"]
        ]
        publish = [
            Stored(TopicId(stored["namespace"], stored["topic"]), stored["write_pointer"])
            for stored in value["publish"]
        ]
        return CommitRequest(advances, publish)

    def encode_status(self, status: str) -> bytes:
        """Return the answer to an abort."""
        return encode_by(_STATUS, {"status": str(status)})

    def decode_status(self, body: bytes) -> TransactionStatus:
        """Return what an abort answered, for the client."""
        return TransactionStatus(decode_by(_STATUS, body)["status"])

    def encode_truncation(self, asked: Truncation) -> bytes:
        """Return the body of a truncation, for the client."""
        return encode_by(_TRUNCATION, asked._asdict())

    def decode_truncation(self, body: bytes) -> Truncation:
        """Return what is to be taken off the invalid list, checked."""
        return check_truncation(Truncation(**decode_by(_TRUNCATION, body)))

    def encode_truncated(self, count: int) -> bytes:
        """Return the answer to a truncation."""
        return encode_by(_TRUNCATED, {"truncated": count})

    def decode_truncated(self, body: bytes) -> int:
        """Return what a truncation answered, for the client."""
        return int(decode_by(_TRUNCATED, body)["truncated"])

    def encode_publish_all(self, request: PublishAllRequest) -> bytes:
        """Return the body of a publish to several topics, for the client."""
        return encode_by(
            _PUBLISH_ALL,
            {
                "topics": [
                    {"topic": name, "messages": list(messages)}
                    for name, messages in request.topics.items()
                ],
                "owner": request.owner,
                "sequence": request.sequence,
            },
        )

    def decode_publish_all(self, body: bytes, cap: Cap) -> PublishAllRequest:
        """Return what a publish to several topics asks. Raises `TooLarge`."""
        reader = AvroReader(body)
        return publish_all_of(reader, cap, lambda before: reader.bytes_array(cap, before))

    def encode_published_all(self, published: AllPublished) -> bytes:
        """Return the answer to a publish to several topics."""
        return encode_by(
            _PUBLISHED_ALL,
            {"transaction_id": published.write_pointer, "duplicate": published.is_duplicate},
        )

    def decode_published_all(self, body: bytes) -> AllPublished:
        """Return what a publish to several topics answered, for the client."""
        value = decode_by(_PUBLISHED_ALL, body)
        return AllPublished(value["transaction_id"], is_duplicate=value["duplicate"])


def publish_all_of(
    reader: AvroReader, cap: Cap, messages: Callable[[int], Sequence[bytes]]
) -> PublishAllRequest:
    """Return what a publish to several topics asks.

    `messages` reads those of a topic, told how many came before. Raises `TooLarge`,
    `InvalidRequest` (invalid_body).
    """
    topics: dict[str, Sequence[bytes]] = {}
    count = 0
    for _ in reader.items(cap):
        name = reader.text()
        if name in topics:
            raise invalid("a topic stands twice")
        topics[name] = found = messages(count)
        count += len(found)
    owner = reader.text() if reader.has_value() else None
    sequence = reader.number() if reader.has_value() else None
    reader.end()
    return PublishAllRequest(topics, owner, sequence)
