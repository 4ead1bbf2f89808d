"""Bodies of subscriptions in both formats, and what is told of subscriptions and transactions."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.message_ids import IDS
from tests.wire.avro_library import read
from tms.core.commits import CommitRequest
from tms.core.errors import InvalidRequest
from tms.core.message import MessageId
from tms.core.subscriptions import Advance, SubscriptionPosition
from tms.core.topic import TopicId
from tms.core.transaction import TransactionType
from tms.core.transactions import TransactionInfo, TransactionStatus
from tms.wire import avro_transactions as schemas
from tms.wire import json_reports
from tms.wire.avro_bodies import AVRO
from tms.wire.json_bodies import JSON
from tms.wire.transaction_bodies import Move

INT64_MAX = 2**63 - 1
INT64 = st.integers(-(2**63), INT64_MAX)
POINTERS = st.integers(1, INT64_MAX)
NAMES = st.from_regex(r"[A-Za-z0-9_]{1,9}", fullmatch=True)
RAW_IDS = IDS.map(MessageId.encode)
ORDERS = TopicId("default", "orders")


def json_body(**fields: object) -> bytes:
    return json.dumps(fields).encode()


@given(st.none() | RAW_IDS)
def test_where_a_subscription_starts_survives(after: bytes | None) -> None:
    body = AVRO.subscriptions.encode_position(after)
    told = None if after is None else after.hex()

    assert AVRO.subscriptions.decode_position(body) == after
    assert read(schemas.POSITION_SCHEMA, body) == {"after": after}
    assert JSON.subscriptions.decode_position(json_body(after=told)) == after


def test_an_empty_body_starts_before_the_oldest_message() -> None:
    assert AVRO.subscriptions.decode_position(b"") is None
    assert JSON.subscriptions.decode_position(b"") is None


@given(st.builds(Move, RAW_IDS, INT64))
def test_a_move_survives(move: Move) -> None:
    body = AVRO.subscriptions.encode_move(move)
    told = {"after": move.after.hex(), "expected_version": move.expected_version}

    assert AVRO.subscriptions.decode_move(body) == move
    assert read(schemas.MOVE_SCHEMA, body) == move._asdict()
    assert JSON.subscriptions.decode_move(json_body(**told)) == move


@given(st.builds(SubscriptionPosition, st.just(ORDERS), NAMES, st.none() | RAW_IDS, INT64))
def test_a_subscription_survives(subscription: SubscriptionPosition) -> None:
    body = AVRO.subscriptions.encode_subscription(subscription)
    told = {
        "name": subscription.name,
        "after": subscription.after,
        "version": subscription.version,
    }

    assert AVRO.subscriptions.decode_subscription(body, ORDERS) == subscription
    assert read(schemas.SUBSCRIPTION_SCHEMA, body) == told
    in_json = JSON.subscriptions.encode_subscription(subscription)
    assert json_reports.decode_subscription(in_json, ORDERS) == subscription
    listed = json_reports.encode_subscriptions([subscription])
    assert json_reports.decode_subscriptions(listed, ORDERS) == [subscription]


INFOS = st.builds(
    TransactionInfo,
    transaction_id=POINTERS,
    status=st.sampled_from(TransactionStatus),
    type=st.sampled_from(TransactionType),
    write_pointers=st.lists(POINTERS, max_size=3).map(tuple),
    started_ms=st.integers(0, 2**50),
    expires_ms=st.none() | st.integers(0, 2**50),
    age_ms=st.integers(0, 2**50),
    ends_in_ms=st.none() | st.integers(0, 2**50),
    client=st.text(max_size=9),
    owner=st.none() | st.text(max_size=9),
    sequence=st.none() | st.integers(0, INT64_MAX),
    topics=st.lists(NAMES, max_size=2).map(tuple),
)


@given(INFOS, st.none() | st.binary(max_size=70))
def test_what_is_told_of_a_transaction_survives(info: TransactionInfo, codec: bytes | None) -> None:
    body = json_reports.encode_info(info, codec)

    assert json_reports.decode_info(body) == (info, codec)
    assert ("transaction" in json.loads(body)) == (codec is not None)
    listed = json_reports.encode_infos([info])
    assert json_reports.decode_infos(listed) == [info]
    assert json.loads(listed)[0]["age_ms"] == info.age_ms


def test_the_size_of_the_invalid_list_survives() -> None:
    assert json_reports.decode_size(json_reports.encode_size(7)) == 7
    with pytest.raises(InvalidRequest):
        json_reports.decode_size(b"{}")


@pytest.mark.parametrize("after", [b"", bytes(19), b"\xff" * 20])
def test_an_id_that_is_none_is_refused(after: bytes) -> None:
    bodies: list[tuple[Callable[[bytes], object], bytes]] = [
        (AVRO.subscriptions.decode_position, AVRO.subscriptions.encode_position(after)),
        (AVRO.subscriptions.decode_move, AVRO.subscriptions.encode_move(Move(after, 1))),
        (
            AVRO.transactions.decode_commit,
            AVRO.transactions.encode_commit(CommitRequest([Advance(ORDERS, "s", after, 3)])),
        ),
        (JSON.subscriptions.decode_position, json_body(after=after.hex())),
        (JSON.subscriptions.decode_move, json_body(after=after.hex(), expected_version=1)),
    ]
    for decode, body in bodies:
        with pytest.raises(InvalidRequest) as refused:
            decode(body)
        assert refused.value.problem.code == "invalid_message_id"
