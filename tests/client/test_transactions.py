"""Transactions with owners, functions run in one, many topics at once, and administration."""

import pytest

import tms
from tests.client.conftest import WHOLE
from tests.client.participant import Noting


@pytest.fixture
def other(client: tms.Client) -> tms.Topic:
    topic = client.topic("audit")
    topic.create()
    return topic


def committed(topic: tms.Topic) -> list[bytes]:
    return [message.payload for message in topic.poll(committed=True)]


def test_a_sequence_is_committed_once(client: tms.Client, topic: tms.Topic, namespace: str) -> None:
    for _ in range(2):
        try:
            with client.transaction(owner=namespace, sequence=1) as tx:
                topic.publish(b"one", tx)
        except tms.TransactionDuplicate as error:
            assert error.detail["owner"] == namespace

    assert committed(topic) == [b"one"]


def test_an_open_one_of_the_same_owner_is_refused_fenced_or_joined(
    client: tms.Client, topic: tms.Topic, namespace: str
) -> None:
    def work(**options: object) -> tms.TransactionContext:
        return client.transaction(owner=namespace, sequence=1, **options)  # type: ignore[arg-type]

    with pytest.raises(tms.TransactionNotInProgress), work() as tx:  # noqa: PT012
        topic.publish(b"fenced", tx)
        with pytest.raises(tms.OwnerBusy), work():
            pass
        with work(if_open="join") as same:
            assert same.transaction_id == tx.transaction_id
            same.gathered.messages._ranges.clear()
            with work(if_open=tms.IfOpen.FENCE) as newer:
                topic.publish(b"newer", newer)
            with pytest.raises(tms.TransactionNotInProgress):
                topic.publish(b"late", tx)
            with pytest.raises(tms.TransactionNotInProgress):
                same.checkpoint()

    assert committed(topic) == [b"newer"]


def test_it_is_named_for_operators(client: tms.Client, topic: tms.Topic, namespace: str) -> None:
    with client.transaction(owner=namespace, sequence=7, timeout_s=60) as tx:
        topic.publish(b"one", tx)
        info = client.transactions.info(tx.transaction_id)
        listed = client.transactions.in_progress()
        tx.abort()

    assert (info.owner, info.sequence, info.type.name) == (namespace, 7, "SHORT")
    assert info.expires_ms is not None
    assert 55_000 < info.expires_ms - info.started_ms < 65_000
    assert list(info.topics) == [f"{namespace}:orders"]
    assert ":" in info.client
    assert info.transaction_id in [each.transaction_id for each in listed]


def test_a_long_one_lasts_a_day(client: tms.Client) -> None:
    with client.transaction(long=True) as tx:
        info = client.transactions.info(tx.transaction_id)

    assert info.type.name == "LONG"
    assert info.expires_ms is not None
    assert info.expires_ms - info.started_ms > 3_600_000


def test_a_function_is_run_again_after_a_conflict(client: tms.Client, topic: tms.Topic) -> None:
    runs: list[int] = []
    participant = Noting(keys=[b"k"])

    def work(tx: tms.TransactionContext) -> str:
        runs.append(tx.transaction_id)
        topic.publish(b"%d" % len(runs), tx)
        if len(runs) < 3:
            with client.transaction(participants=[Noting(keys=[b"k"])]):
                pass
        return "done"

    assert client.run_in_transaction(work, participants=[participant]) == "done"
    assert len(runs) == 3
    assert committed(topic) == [b"3"]


def test_conflicts_end(client: tms.Client) -> None:
    runs: list[int] = []

    def work(tx: tms.TransactionContext) -> None:
        runs.append(tx.transaction_id)
        with client.transaction(participants=[Noting(keys=[b"k"])]):
            pass

    with pytest.raises(tms.TransactionConflict):
        client.run_in_transaction(work, retries=2, participants=[Noting(keys=[b"k"])])
    assert len(runs) == 3


def test_other_errors_are_not_run_again(client: tms.Client) -> None:
    runs: list[int] = []

    def work(tx: tms.TransactionContext) -> None:
        runs.append(tx.transaction_id)
        raise LookupError

    with pytest.raises(LookupError):
        client.run_in_transaction(work)
    assert len(runs) == 1


def test_many_topics_are_published_to_at_once(
    client: tms.Client, topic: tms.Topic, other: tms.Topic, namespace: str
) -> None:
    everything: dict[str, bytes | list[bytes]] = {"orders": [b"one", b"two"], "audit": b"three"}
    first = client.publish_all(everything, owner=namespace, sequence=1)
    again = client.publish_all(everything, owner=namespace, sequence=1)

    assert not first.is_duplicate
    assert (again.is_duplicate, again.write_pointer) == (True, first.write_pointer)
    assert committed(topic) == [b"one", b"two"]
    assert committed(other) == [b"three"]
    with pytest.raises(tms.TopicNotFound):
        client.publish_all({"orders": b"x", "none": b"y"})
    assert committed(topic) == [b"one", b"two"]
    with pytest.raises(TypeError, match="encode it first"):
        client.publish_all({"orders": ["text"]})  # type: ignore[list-item]


def test_invalid_transactions_are_listed_and_truncated(client: tms.Client) -> None:
    transactions = client.transactions
    tx = client.transaction(participants=[Noting(fails_at={"rollback"})])
    with pytest.raises(LookupError, match="body"), tx:
        raise LookupError("body")
    assert transactions.info(tx.transaction_id).status is tms.TransactionStatus.INVALID
    listed = {info.transaction_id: info for info in transactions.invalid()}
    assert listed[tx.transaction_id].expires_ms is None
    assert transactions.invalid_count() >= len(listed)
    assert len(transactions.invalid(limit=1)) == 1

    with client.transaction() as other:
        with pytest.raises(tms.InvalidTruncateTime):
            transactions.truncate_invalid_before(2**43)
        other.abort()
    assert transactions.truncate_invalid_before(1) == 0
    assert transactions.truncate_invalid_ids([tx.transaction_id, 5]) == 1
    assert tx.transaction_id not in [info.transaction_id for info in transactions.invalid()]


@pytest.mark.parametrize("store_kind", WHOLE)
def test_the_state_of_a_whole_store_can_be_had(client: tms.Client) -> None:
    assert client.transactions.snapshot()


def test_owners_are_listed_and_forgotten(
    client: tms.Client, topic: tms.Topic, other: tms.Topic, namespace: str
) -> None:
    del topic, other
    owner = f"{namespace}/a b&ü"
    first = client.publish_all({"orders": b"one"}, owner=owner, sequence=7)
    [told] = [each for each in client.transactions.owners() if each.owner == owner]
    assert (told.sequence, told.transaction_id) == (7, first.write_pointer)
    assert (told.origin, told.principal) == (None, None)
    assert len(client.transactions.owners(limit=1)) == 1
    assert client.transactions.owners(principal="nobody & none") == []

    with client.transaction(owner=owner) as tx:
        with pytest.raises(tms.OwnerBusy):
            client.transactions.forget_owner(owner)
        tx.abort()
    client.transactions.forget_owner(owner)
    assert owner not in [each.owner for each in client.transactions.owners()]
    with pytest.raises(tms.OwnerNotFound):
        client.transactions.forget_owner(owner)
    assert not client.publish_all({"orders": b"two"}, owner=owner, sequence=7).is_duplicate


def test_one_that_hangs_is_ended_by_operators(client: tms.Client) -> None:
    transactions = client.transactions
    with pytest.raises(tms.TransactionNotInProgress), client.transaction() as tx:  # noqa: PT012
        assert transactions.transaction(tx.transaction_id) == tx.transaction
        assert transactions.abort(tx.transaction_id) is tms.TransactionStatus.ABORTED

    with pytest.raises(tms.TransactionNotInProgress):
        transactions.transaction(tx.transaction_id)
    with pytest.raises(tms.TransactionUnknown):
        transactions.info(5)
