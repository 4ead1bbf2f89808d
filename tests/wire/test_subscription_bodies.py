"""Bodies of subscriptions, and the errors of subscriptions and transactions."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.message_ids import IDS
from tms.core.errors import InternalError, InvalidRequest
from tms.core.services.commits import CommitRequest
from tms.core.services.transactions import TransactionInfo, TransactionStatus
from tms.core.values.message import MessageId
from tms.core.values.subscriptions import Advance, SubscriptionKind, SubscriptionPosition
from tms.core.values.topic import TopicId
from tms.core.values.transaction import TransactionType
from tms.wire import json_reports, json_transactions
from tms.wire import json_subscriptions as bodies

INT64_MAX = 2**63 - 1
INT64 = st.integers(-(2**63), INT64_MAX)
POINTERS = st.integers(1, INT64_MAX)
NAMES = st.from_regex(r"[A-Za-z0-9_]{1,9}", fullmatch=True)
RAW_IDS = IDS.map(MessageId.encode)
ORDERS = TopicId("default", "orders")


@given(st.none() | RAW_IDS)
def test_where_a_subscription_starts_survives(after: bytes | None) -> None:
    body = bodies.encode_position(after)

    assert bodies.decode_position(body) == after
    assert json.loads(body) == {"after": None if after is None else after.hex()}


def test_an_empty_body_starts_before_the_oldest_message() -> None:
    assert bodies.decode_position(b"") is None
    assert bodies.decode_position(b"{}") is None


@given(st.builds(Advance, st.just(ORDERS), NAMES, RAW_IDS, INT64))
def test_a_move_survives(move: Advance) -> None:
    body = bodies.encode_move(move)

    assert bodies.decode_move(body, ORDERS, move.name) == move
    assert json.loads(body) == {
        "after": move.after.hex(),
        "expected_version": move.expected_version,
    }


KINDS = st.sampled_from(SubscriptionKind)


@given(st.builds(SubscriptionPosition, st.just(ORDERS), NAMES, st.none() | RAW_IDS, INT64, KINDS))
def test_a_subscription_survives(subscription: SubscriptionPosition) -> None:
    answer = bodies.encode_subscription(subscription)
    after = subscription.after

    assert bodies.decode_subscription(answer, ORDERS) == subscription
    assert json.loads(answer) == {
        "name": subscription.name,
        "kind": subscription.kind.value,
        "after": None if after is None else after.hex(),
        "version": subscription.version,
    }
    listed = bodies.encode_subscriptions([subscription])
    assert bodies.decode_subscriptions(listed, ORDERS) == [subscription]


def test_an_answer_that_is_not_one_is_the_servers_error() -> None:
    for answer in (b"", b"{}", b"[5]", b'{"name": "s", "after": 5, "version": 1}'):
        with pytest.raises(InternalError):
            bodies.decode_subscription(answer, ORDERS)
        with pytest.raises(InternalError):
            bodies.decode_subscriptions(answer, ORDERS)


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
    wrong = Advance(ORDERS, "s", after, 1)
    cases: list[tuple[Callable[[bytes], object], bytes]] = [
        (bodies.decode_position, bodies.encode_position(after)),
        (lambda body: bodies.decode_move(body, ORDERS, "s"), bodies.encode_move(wrong)),
        (json_transactions.decode_commit, json_transactions.encode_commit(CommitRequest([wrong]))),
    ]
    for decode, body in cases:
        with pytest.raises(InvalidRequest) as refused:
            decode(body)
        assert refused.value.problem.code == "invalid_message_id"


def test_a_subscription_of_an_older_server_is_a_single_one() -> None:
    answer = b'{"name":"s","after":null,"version":7}'

    told = bodies.decode_subscription(answer, ORDERS)
    assert told == SubscriptionPosition(ORDERS, "s", None, 7, SubscriptionKind.SINGLE)
