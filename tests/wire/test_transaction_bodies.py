"""Bodies of transactions, and of a publish to several topics, in both formats."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.message_ids import IDS
from tests.wire.avro_library import read
from tms.core.commits import CommitRequest, Stored
from tms.core.errors import InvalidRequest, TooLarge
from tms.core.message import MessageId
from tms.core.messaging import AllPublished
from tms.core.subscriptions import Advance
from tms.core.topic import TopicId
from tms.core.transaction import Transaction, TransactionType
from tms.core.transactions import IfOpen, StartRequest, TransactionStatus
from tms.wire import avro_transactions as schemas
from tms.wire.avro_bodies import AVRO
from tms.wire.caps import changes_cap, messages_cap
from tms.wire.json_bodies import JSON, JSON_BASE64
from tms.wire.transaction_bodies import (
    PublishAllRequest,
    StartedTransaction,
    Truncation,
    started,
)
from tms.wire.transaction_codec import decode_transaction

INT64_MAX = 2**63 - 1
INT64 = st.integers(-(2**63), INT64_MAX)
POINTERS = st.integers(1, INT64_MAX)
NAMES = st.from_regex(r"[A-Za-z0-9_]{1,9}", fullmatch=True)
RAW_IDS = IDS.map(MessageId.encode)
CHANGES = changes_cap(1000)
MESSAGES = messages_cap(1000)
ORDERS = TopicId("default", "orders")

STARTS = st.builds(
    StartRequest,
    type=st.sampled_from(TransactionType),
    timeout_s=st.none() | INT64,
    client=st.text(max_size=20),
    owner=st.none() | st.text(max_size=20),
    sequence=st.none() | INT64,
    origin=st.none() | st.text(max_size=20),
    if_open=st.sampled_from(IfOpen),
)
ADVANCES = st.lists(
    st.builds(Advance, st.builds(TopicId, NAMES, NAMES), NAMES, RAW_IDS, INT64), max_size=3
)
STORED = st.lists(st.builds(Stored, st.builds(TopicId, NAMES, NAMES), POINTERS), max_size=3)
PUBLISHES = st.builds(
    PublishAllRequest,
    st.dictionaries(NAMES, st.lists(st.binary(max_size=70), max_size=3), max_size=3),
    st.none() | st.text(max_size=20),
    st.none() | INT64,
)
STARTED = st.builds(StartedTransaction, INT64, INT64, INT64, st.none() | st.binary(max_size=70))
TRUNCATIONS = st.builds(Truncation, st.lists(POINTERS, max_size=3), st.none()) | st.builds(
    Truncation, st.none(), st.integers(0, INT64_MAX)
)


def json_body(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def in_json(asked: Truncation) -> dict[str, object]:
    ids = None if asked.ids is None else [*map(str, asked.ids)]
    told = {"ids": ids, "before_ms": asked.before_ms}
    return {name: value for name, value in told.items() if value is not None}


@given(STARTS)
def test_a_start_survives(request: StartRequest) -> None:
    body = AVRO.transactions.encode_start(request)
    told = {
        "type": request.type.name.lower(),
        "timeout_s": request.timeout_s,
        "client": request.client,
        "owner": request.owner,
        "sequence": request.sequence,
        "origin": request.origin,
        "if_open": request.if_open,
    }

    assert AVRO.transactions.decode_start(body) == request
    assert read(schemas.START_SCHEMA, body) == told
    assert JSON.transactions.decode_start(json_body(**told)) == request


def test_an_empty_start_asks_for_the_defaults() -> None:
    for body_format, body in ((AVRO, b""), (JSON, b""), (JSON, b"{}")):
        assert body_format.transactions.decode_start(body) == StartRequest()


@given(STARTED)
def test_a_started_transaction_survives(answer: StartedTransaction) -> None:
    body = AVRO.transactions.encode_started(answer)
    in_json = json.loads(JSON.transactions.encode_started(answer))

    assert AVRO.transactions.decode_started(body) == answer
    assert read(schemas.STARTED_SCHEMA, body) == answer._asdict()
    codec = in_json.pop("transaction", None)
    assert (None if codec is None else base64.b64decode(codec)) == answer.transaction
    assert in_json == {k: str(v) for k, v in answer._asdict().items() if k != "transaction"}


def test_a_started_transaction_has_its_codec_if_asked_for() -> None:
    transaction = Transaction(read_pointer=1, transaction_id=2, write_pointer=3, invalids=(1,))

    assert started(transaction, with_codec=False) == StartedTransaction(2, 3, 1, None)
    codec = started(transaction, with_codec=True).transaction
    assert codec is not None
    assert decode_transaction(codec) == transaction


@given(st.lists(st.binary(max_size=70), max_size=5))
def test_changes_survive(changes: list[bytes]) -> None:
    body = AVRO.transactions.encode_changes(changes)
    in_base64 = json_body(changes=[base64.b64encode(change).decode() for change in changes])

    assert AVRO.transactions.decode_changes(body, CHANGES) == changes
    assert read(schemas.CHANGES_SCHEMA, body) == {"changes": changes}
    assert JSON_BASE64.transactions.decode_changes(in_base64, CHANGES) == changes


def test_changes_in_json_are_text_or_base64() -> None:
    body = json_body(changes=["é", {"base64": "/w=="}])

    assert JSON.transactions.decode_changes(body, CHANGES) == ["é".encode(), b"\xff"]


@given(ADVANCES, STORED)
def test_a_commit_survives(advances: list[Advance], publish: list[Stored]) -> None:
    request = CommitRequest(advances, publish)
    body = AVRO.transactions.encode_commit(request)
    named = [
        {
            "namespace": stored.topic_id.namespace,
            "topic": stored.topic_id.name,
            "write_pointer": stored.write_pointer,
        }
        for stored in publish
    ]
    told = [
        {
            "namespace": advance.topic_id.namespace,
            "topic": advance.topic_id.name,
            "subscription": advance.name,
            "after": advance.after,
            "expected_version": advance.expected_version,
        }
        for advance in advances
    ]

    assert AVRO.transactions.decode_commit(body) == request
    assert read(schemas.COMMIT_SCHEMA, body) == {"advances": told, "publish": named}
    in_hex = [{**one, "after": one["after"].hex()} for one in told]  # type: ignore[attr-defined]
    as_text = [{**one, "write_pointer": str(one["write_pointer"])} for one in named]
    assert JSON.transactions.decode_commit(json_body(advances=in_hex, publish=as_text)) == request


def test_an_empty_commit_moves_nothing() -> None:
    for body_format, body in ((AVRO, b""), (AVRO, b"\x00\x00"), (JSON, b""), (JSON, b"{}")):
        request = body_format.transactions.decode_commit(body)
        assert (list(request.advances), list(request.publish)) == ([], [])


@pytest.mark.parametrize("status", [TransactionStatus.ABORTED, TransactionStatus.INVALID])
def test_how_an_abort_ended_survives(status: TransactionStatus) -> None:
    body = AVRO.transactions.encode_status(status)

    assert AVRO.transactions.decode_status(body) is status
    assert read(schemas.STATUS_SCHEMA, body) == {"status": status}
    assert json.loads(JSON.transactions.encode_status(status)) == {"status": status}


@given(TRUNCATIONS)
def test_a_truncation_survives(asked: Truncation) -> None:
    body = AVRO.transactions.encode_truncation(asked)
    told = in_json(asked)

    assert AVRO.transactions.decode_truncation(body) == asked
    assert read(schemas.TRUNCATION_SCHEMA, body) == asked._asdict()
    assert JSON.transactions.decode_truncation(json_body(**told)) == asked


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (Truncation(), "invalid_body"),
        (Truncation([1], 1), "invalid_body"),
        (Truncation([0]), "invalid_transaction_id"),
        (Truncation([-1]), "invalid_transaction_id"),
        (Truncation(None, -1), "invalid_time"),
    ],
)
def test_a_truncation_is_by_ids_or_by_time(asked: Truncation, code: str) -> None:
    told = in_json(asked)
    for decode, body in (
        (AVRO.transactions.decode_truncation, AVRO.transactions.encode_truncation(asked)),
        (JSON.transactions.decode_truncation, json_body(**told)),
    ):
        with pytest.raises(InvalidRequest) as refused:
            decode(body)
        assert refused.value.problem.code == code


@given(st.integers(0, INT64_MAX))
def test_how_many_were_truncated_survives(count: int) -> None:
    body = AVRO.transactions.encode_truncated(count)

    assert AVRO.transactions.decode_truncated(body) == count
    assert read(schemas.TRUNCATED_SCHEMA, body) == {"truncated": count}
    assert json.loads(JSON.transactions.encode_truncated(count)) == {"truncated": count}


@given(PUBLISHES)
def test_a_publish_to_several_topics_survives(request: PublishAllRequest) -> None:
    body = AVRO.transactions.encode_publish_all(request)
    told = [{"topic": name, "messages": messages} for name, messages in request.topics.items()]
    in_base64 = {
        name: [base64.b64encode(message).decode() for message in messages]
        for name, messages in request.topics.items()
    }

    assert AVRO.transactions.decode_publish_all(body, MESSAGES) == request
    assert read(schemas.PUBLISH_ALL_SCHEMA, body) == {**request._asdict(), "topics": told}
    in_json = json_body(topics=in_base64, owner=request.owner, sequence=request.sequence)
    assert JSON_BASE64.transactions.decode_publish_all(in_json, MESSAGES) == request


@given(st.builds(AllPublished, INT64, st.booleans()))
def test_what_a_publish_to_several_topics_answers_survives(published: AllPublished) -> None:
    body = AVRO.transactions.encode_published_all(published)
    told = {"transaction_id": published.write_pointer, "duplicate": published.is_duplicate}
    as_text = {**told, "transaction_id": str(published.write_pointer)}

    assert AVRO.transactions.decode_published_all(body) == published
    assert read(schemas.PUBLISHED_ALL_SCHEMA, body) == told
    assert json.loads(JSON.transactions.encode_published_all(published)) == as_text


def test_messages_of_all_topics_together_are_capped() -> None:
    request = PublishAllRequest({"a": [b"1", b"2"], "b": [b"3"]})
    told = json_body(topics={"a": ["1", "2"], "b": ["3"]})
    for decode, body in (
        (AVRO.transactions.decode_publish_all, AVRO.transactions.encode_publish_all(request)),
        (JSON.transactions.decode_publish_all, told),
    ):
        assert decode(body, messages_cap(3)) == request
        with pytest.raises(TooLarge):
            decode(body, messages_cap(2))


def test_a_topic_that_stands_twice_is_refused() -> None:
    """The messages of one of both would be lost."""
    once = AVRO.transactions.encode_publish_all(PublishAllRequest({"a": [b"1"]}))
    twice = b"\x04" + once[1:-3] + once[1:]

    with pytest.raises(InvalidRequest, match="twice"):
        AVRO.transactions.decode_publish_all(twice, MESSAGES)
