"""Bodies of transactions: the JSON that a client writes, as the server reads it, and back."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.message_ids import IDS
from tests.wire.transactions import TRANSACTIONS
from tms.core.errors import InternalError, InvalidRequest
from tms.core.services.commits import CommitRequest, Stored
from tms.core.services.transactions import IfOpen, StartRequest, TransactionStatus
from tms.core.values.message import MessageId
from tms.core.values.subscriptions import Advance
from tms.core.values.topic import TopicId
from tms.core.values.transaction import Transaction, TransactionType
from tms.wire import json_transactions as bodies
from tms.wire.transaction_codec import encode_transaction

INT64_MAX = 2**63 - 1
INT64 = st.integers(-(2**63), INT64_MAX)
POINTERS = st.integers(1, INT64_MAX)
NAMES = st.from_regex(r"[A-Za-z0-9_]{1,9}", fullmatch=True)
RAW_IDS = IDS.map(MessageId.encode)

STARTS = st.builds(
    StartRequest,
    type=st.sampled_from(TransactionType),
    timeout_s=st.none() | INT64,
    client=st.text(max_size=20),
    owner=st.none() | st.text(max_size=20),
    sequence=st.none() | INT64,
    origin=st.none() | st.text(max_size=20),
    if_open=st.sampled_from(IfOpen),
    namespace=st.just("default"),
    topic=st.none(),
)
ADVANCES = st.lists(
    st.builds(Advance, st.builds(TopicId, NAMES, NAMES), NAMES, RAW_IDS, INT64), max_size=3
)
STORED = st.lists(st.builds(Stored, st.builds(TopicId, NAMES, NAMES), POINTERS), max_size=3)


def json_body(**fields: object) -> bytes:
    return json.dumps(fields).encode()


@given(STARTS)
def test_a_start_survives(request: StartRequest) -> None:
    body = bodies.encode_start(request)

    assert bodies.decode_start(body) == request
    told = {**request._asdict(), "type": request.type.name.lower()}
    del told["namespace"], told["topic"]  # these are in the query
    assert json.loads(body) == told


def test_an_empty_start_asks_for_the_defaults() -> None:
    assert bodies.decode_start(b"") == bodies.decode_start(b"{}") == StartRequest()


@given(TRANSACTIONS)
def test_a_started_transaction_survives(transaction: Transaction) -> None:
    answer = bodies.encode_started(transaction, with_codec=True)
    told = json.loads(answer)

    assert bodies.decode_started(answer) == transaction
    assert base64.b64decode(told.pop("transaction")) == encode_transaction(transaction)
    ids = {name: str(getattr(transaction, name)) for name in told}
    assert told == ids
    assert list(ids) == ["transaction_id", "write_pointer", "read_pointer"]
    assert json.loads(bodies.encode_started(transaction, with_codec=False)) == ids


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"transaction_id": 5}', b"\xff"])
def test_an_answer_that_is_not_one_is_the_servers_error(answer: bytes) -> None:
    for decode in (bodies.decode_started, bodies.decode_ended, bodies.decode_truncated):
        with pytest.raises(InternalError):
            decode(answer)


@given(st.lists(st.binary(max_size=70), max_size=5))
def test_changes_survive(changes: list[bytes]) -> None:
    body = bodies.encode_changes(changes)

    assert bodies.decode_changes(body, 1000) == changes


def test_changes_in_json_are_text_or_base64() -> None:
    body = json_body(changes=["é", {"base64": "/w=="}])

    changes = bodies.decode_changes(body, 1000)

    assert changes == ["é".encode(), b"\xff"]


@given(ADVANCES, STORED)
def test_a_commit_survives(advances: list[Advance], publish: list[Stored]) -> None:
    request = CommitRequest(tuple(advances), tuple(publish))
    body = bodies.encode_commit(request)

    assert bodies.decode_commit(body) == request
    assert json.loads(body) == {
        "advances": [
            {
                "namespace": advance.topic_id.namespace,
                "topic": advance.topic_id.name,
                "subscription": advance.name,
                "after": advance.after.hex(),
                "expected_version": advance.expected_version,
            }
            for advance in advances
        ],
        "publish": [
            {
                "namespace": stored.topic_id.namespace,
                "topic": stored.topic_id.name,
                "write_pointer": str(stored.write_pointer),
            }
            for stored in publish
        ],
    }


def test_an_empty_commit_moves_nothing() -> None:
    for body in (b"", b"{}"):
        request = bodies.decode_commit(body)
        assert (list(request.advances), list(request.publish)) == ([], [])


@pytest.mark.parametrize("status", [TransactionStatus.ABORTED, TransactionStatus.INVALID])
def test_how_an_abort_ended_survives(status: TransactionStatus) -> None:
    answer = bodies.encode_ended(status)

    assert bodies.decode_ended(answer) is status
    assert json.loads(answer) == {"status": status}


@given(st.lists(POINTERS, max_size=3), st.integers(0, INT64_MAX))
def test_a_truncation_survives(ids: list[int], before_ms: int) -> None:
    by_ids = bodies.encode_truncation(ids=ids)
    by_time = bodies.encode_truncation(before_ms=before_ms)

    assert bodies.decode_truncation(by_ids) == ids
    assert json.loads(by_ids) == {"ids": [*map(str, ids)], "before_ms": None}
    assert bodies.decode_truncation(by_time) == before_ms
    assert json.loads(by_time) == {"ids": None, "before_ms": before_ms}


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({}, "invalid_body"),
        ({"ids": [1], "before_ms": 1}, "invalid_body"),
        ({"ids": [0]}, "invalid_transaction_id"),
        ({"ids": [-1]}, "invalid_transaction_id"),
        ({"ids": [2**63]}, "invalid_transaction_id"),
        ({"before_ms": -1}, "invalid_time"),
    ],
)
def test_a_truncation_is_by_ids_or_by_time(asked: dict[str, Any], code: str) -> None:
    """The server refuses it even from a client that encodes its bodies with our code."""
    body = bodies.encode_truncation(**asked)

    with pytest.raises(InvalidRequest) as refused:
        bodies.decode_truncation(body)
    assert refused.value.problem.code == code


@given(st.integers(0, INT64_MAX))
def test_how_many_were_truncated_survives(count: int) -> None:
    answer = bodies.encode_truncated(count)

    assert bodies.decode_truncated(answer) == count
    assert json.loads(answer) == {"truncated": count}
