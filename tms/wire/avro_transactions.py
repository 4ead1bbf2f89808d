"""Bodies of transactions and subscriptions as raw Avro binary: our own schemas, no CDAP has them.

The fields have the names and the order of the JSON bodies. Strings that have few values are enums.
"""

from collections.abc import Sequence
from typing import Any

from tms.core.message import check_id
from tms.core.messaging import AllPublished
from tms.core.subscriptions import Advance
from tms.core.topic import TopicId
from tms.core.transaction import TransactionType
from tms.core.transactions import IfOpen, StartRequest, TransactionStatus
from tms.wire.avro import (
    NULL,
    AvroReader,
    array,
    bytes_array,
    invalid,
    number,
    optional,
    sized,
    text,
)
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
_TRUE, _FALSE = b"\x01", b"\x00"


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

_DEFAULT_START = StartRequest()


def _numbered(value: int | None) -> bytes:
    return NULL if value is None else optional(number(value))


class AvroTransactions:
    """`avro/binary` of transactions, both ways."""

    def encode_start(self, request: StartRequest) -> bytes:
        """Return the body of a start, for the client."""
        return b"".join(
            (
                number(_TYPES.index(request.type)),
                _numbered(request.timeout_s),
                text(request.client),
                NULL if request.owner is None else optional(text(request.owner)),
                _numbered(request.sequence),
                number(_IF_OPEN.index(request.if_open)),
            )
        )

    def decode_start(self, body: bytes) -> StartRequest:
        """Return what a start asks. An empty body asks for the defaults."""
        if not body:
            return _DEFAULT_START
        reader = AvroReader(body)
        request = StartRequest(
            type=_TYPES[reader.branch(len(_TYPES))],
            timeout_s=reader.number() if reader.has_value() else None,
            client=reader.text(),
            owner=reader.text() if reader.has_value() else None,
            sequence=reader.number() if reader.has_value() else None,
            if_open=_IF_OPEN[reader.branch(len(_IF_OPEN))],
        )
        reader.end()
        return request

    def encode_started(self, answer: StartedTransaction) -> bytes:
        """Return the answer to start and to checkpoint."""
        codec = answer.transaction
        return b"".join(
            (
                number(answer.transaction_id),
                number(answer.write_pointer),
                number(answer.read_pointer),
                NULL if codec is None else optional(sized(codec)),
            )
        )

    def decode_started(self, body: bytes) -> StartedTransaction:
        """Return what a start or a checkpoint answered, for the client."""
        reader = AvroReader(body)
        answer = StartedTransaction(
            reader.number(),
            reader.number(),
            reader.number(),
            reader.sized() if reader.has_value() else None,
        )
        reader.end()
        return answer

    def encode_changes(self, changes: Sequence[bytes]) -> bytes:
        """Return the body of a can-commit, for the client."""
        return bytes_array(changes)

    def decode_changes(self, body: bytes, cap: Cap) -> Sequence[bytes]:
        """Return the changes of a can-commit. Raises `TooLarge`."""
        reader = AvroReader(body)
        changes = reader.bytes_array(cap)
        reader.end()
        return changes

    def encode_advances(self, advances: Sequence[Advance]) -> bytes:
        """Return the body of a commit, for the client."""
        return array(
            [
                text(advance.topic_id.namespace)
                + text(advance.topic_id.name)
                + text(advance.name)
                + sized(advance.after)
                + number(advance.expected_version)
                for advance in advances
            ]
        )

    def decode_advances(self, body: bytes) -> Sequence[Advance]:
        """Return the positions that a commit moves. An empty body moves none."""
        if not body:
            return ()
        reader = AvroReader(body)
        advances = [
            Advance(
                TopicId(reader.text(), reader.text()),
                reader.text(),
                check_id(reader.sized()),
                reader.number(),
            )
            for _ in reader.items()
        ]
        reader.end()
        return advances

    def encode_status(self, status: str) -> bytes:
        """Return the answer to an abort."""
        return number(_ENDED.index(TransactionStatus(status)))

    def decode_status(self, body: bytes) -> TransactionStatus:
        """Return what an abort answered, for the client."""
        reader = AvroReader(body)
        status = _ENDED[reader.branch(len(_ENDED))]
        reader.end()
        return status

    def encode_truncation(self, asked: Truncation) -> bytes:
        """Return the body of a truncation, for the client."""
        ids = None if asked.ids is None else array([number(pointer) for pointer in asked.ids])
        return optional(ids) + _numbered(asked.before_ms)

    def decode_truncation(self, body: bytes) -> Truncation:
        """Return what is to be taken off the invalid list, checked."""
        reader = AvroReader(body)
        ids = [reader.number() for _ in reader.items()] if reader.has_value() else None
        before_ms = reader.number() if reader.has_value() else None
        reader.end()
        return check_truncation(Truncation(ids, before_ms))

    def encode_truncated(self, count: int) -> bytes:
        """Return the answer to a truncation."""
        return number(count)

    def decode_truncated(self, body: bytes) -> int:
        """Return what a truncation answered, for the client."""
        reader = AvroReader(body)
        count = reader.number()
        reader.end()
        return count

    def encode_publish_all(self, request: PublishAllRequest) -> bytes:
        """Return the body of a publish to several topics, for the client."""
        topics = array([text(name) + bytes_array(m) for name, m in request.topics.items()])
        owner = NULL if request.owner is None else optional(text(request.owner))
        return topics + owner + _numbered(request.sequence)

    def decode_publish_all(self, body: bytes, cap: Cap) -> PublishAllRequest:
        """Return what a publish to several topics asks. Raises `TooLarge`."""
        reader = AvroReader(body)
        topics: dict[str, Sequence[bytes]] = {}
        count = 0
        for _ in reader.items(cap):
            name = reader.text()
            if name in topics:
                raise invalid("a topic stands twice")
            topics[name] = messages = reader.bytes_array(cap, count)
            count += len(messages)
        owner = reader.text() if reader.has_value() else None
        sequence = reader.number() if reader.has_value() else None
        reader.end()
        return PublishAllRequest(topics, owner, sequence)

    def encode_published_all(self, published: AllPublished) -> bytes:
        """Return the answer to a publish to several topics."""
        return number(published.write_pointer) + (_TRUE if published.is_duplicate else _FALSE)

    def decode_published_all(self, body: bytes) -> AllPublished:
        """Return what a publish to several topics answered, for the client."""
        reader = AvroReader(body)
        published = AllPublished(reader.number(), is_duplicate=reader.boolean())
        reader.end()
        return published
