"""Begin, commit and roll back: every participant takes part, or none, wherever something fails."""

import threading
from collections.abc import Iterator

import pytest

import tms
from tests.client.participant import AsyncNoting, Noting

COMMIT = ["start", "changes", "persist", "post_commit"]


@pytest.fixture
def other(client: tms.Client) -> tms.Topic:
    topic = client.topic("audit")
    topic.create()
    return topic


def committed(topic: tms.Topic) -> list[bytes]:
    return [message.payload for message in topic.poll(committed=True)]


def status(client: tms.Client, tx: tms.TransactionContext) -> str:
    return client.transactions.info(tx.transaction_id).status


def of(name: str, *verbs: str) -> list[str]:
    return [f"{name}.{verb}" for verb in verbs]


def test_what_is_published_is_seen_together_after_the_commit(
    client: tms.Client, topic: tms.Topic, other: tms.Topic
) -> None:
    with client.transaction() as tx:
        topic.publish(b"direct", tx)
        other.publish([b"one", b"two"], tx, buffer=True)
        topic.publish(b"buffered", tx, buffer=True)
        assert committed(topic) == committed(other) == []
        assert [message.payload for message in topic.poll(tx=tx)] == [b"direct"]
        assert status(client, tx) == "in_progress"
        assert not tx.is_committed

    assert tx.is_committed
    assert status(client, tx) == "committed"
    assert committed(topic) == [b"direct", b"buffered"]
    assert committed(other) == [b"one", b"two"]


def test_what_is_buffered_is_published_once_however_often_it_is_flushed(
    client: tms.Client, topic: tms.Topic
) -> None:
    with client.transaction() as tx:
        topic.publish(b"a", tx, buffer=True)
        first = topic.publish([], tx)
        topic.publish(b"b", tx, buffer=True)
        assert topic.publish([], tx) == first
        topic.publish(b"c", tx, buffer=True)
    assert committed(topic) == [b"a", b"b", b"c"]


def test_an_exception_in_the_body_rolls_back(
    client: tms.Client, topic: tms.Topic, other: tms.Topic
) -> None:
    participant = Noting()
    body = pytest.raises(LookupError, match="mine")
    with body as raised, client.transaction(participants=[participant]) as tx:
        topic.publish(b"one", tx)
        other.publish(b"two", tx, buffer=True)
        topic.publish([b"three", b"four"], tx)
        raise LookupError("mine")

    assert participant.calls == of("one", "start", "rollback")
    assert not hasattr(raised.value, "__notes__")
    assert status(client, tx) == "aborted"
    assert committed(topic) == committed(other) == []
    assert len(list(topic.poll())) == 3  # nothing is deleted
    topic.publish(b"after")
    assert committed(topic) == [b"after"]


def test_participants_are_called_in_tephras_order(client: tms.Client) -> None:
    calls: list[str] = []
    participants: list[tms.TransactionAware] = [
        Noting("a", calls),
        AsyncNoting(Noting("b", calls)),
    ]
    with client.transaction(participants=participants):
        pass

    assert calls == [f"{name}.{verb}" for verb in COMMIT for name in "ab"]


def test_messages_persist_last(client: tms.Client, topic: tms.Topic) -> None:
    """Steps that may be refused come first: taking messages back costs more."""
    seen: list[int] = []

    class Looking(Noting):
        def persist(self) -> None:
            seen.append(len(list(topic.poll())))

    with client.transaction(participants=[Looking()]) as tx:
        topic.publish(b"one", tx, buffer=True)

    assert seen == [0]
    assert committed(topic) == [b"one"]


@pytest.mark.parametrize("verb", ["start", "changes", "persist"])
def test_a_participant_that_fails_rolls_all_back(
    client: tms.Client, topic: tms.Topic, verb: str
) -> None:
    calls: list[str] = []
    participants = [Noting("a", calls), Noting("b", calls, fails_at={verb}), Noting("c", calls)]
    tx = client.transaction(participants=participants)
    with pytest.raises(LookupError, match=f"b fails at {verb}") as raised, tx:
        topic.publish(b"one", tx)

    # A participant that was never started has nothing to undo.
    started = [call[0] for call in calls if call.endswith("start")]
    assert [call for call in calls if "rollback" in call] == [f"{n}.rollback" for n in started]
    assert "post_commit" not in " ".join(calls)
    assert status(client, tx) == "aborted"
    assert committed(topic) == []
    assert not hasattr(raised.value, "__notes__")


def test_a_rollback_that_fails_makes_the_transaction_invalid(
    client: tms.Client, topic: tms.Topic, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[str] = []
    participants = [Noting("a", calls, fails_at={"rollback", "persist"}), Noting("b", calls)]
    tx = client.transaction(participants=participants)
    with pytest.raises(LookupError, match="a fails at persist") as raised, tx:
        topic.publish(b"one", tx)

    assert calls[-2:] == ["a.rollback", "b.rollback"]
    assert status(client, tx) == "invalid"
    assert committed(topic) == []
    [note] = raised.value.__notes__
    assert note == (
        f"transaction {tx.transaction_id}: a could not be rolled back: "
        "LookupError('a fails at rollback')"
    )
    assert [str(error) for error in tx.suppressed] == ["a fails at rollback"]
    assert len(caplog.records) == 1
    client.transactions.truncate_invalid_ids([tx.transaction_id])


def test_what_fails_after_the_commit_does_not_undo_it(
    client: tms.Client, topic: tms.Topic, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[str] = []
    participants = [Noting("a", calls, fails_at={"post_commit"}), Noting("b", calls)]
    with client.transaction(participants=participants) as tx:
        topic.publish(b"one", tx)

    assert calls[-2:] == ["a.post_commit", "b.post_commit"]
    assert "rollback" not in " ".join(calls)
    assert tx.is_committed
    assert committed(topic) == [b"one"]
    assert [str(error) for error in tx.suppressed] == ["a fails at post_commit"]
    assert len(caplog.records) == 1


def test_two_that_change_the_same_conflict(client: tms.Client, topic: tms.Topic) -> None:
    loser = Noting("loser", keys=[b"k", b"l"])
    with pytest.raises(tms.TransactionConflict):  # noqa: SIM117, PT012  one begins inside the other
        with client.transaction(participants=[loser]) as tx:
            topic.publish(b"lost", tx)
            with client.transaction(participants=[Noting(keys=[b"k"])]) as winner:
                topic.publish(b"won", winner)

    assert loser.calls == of("loser", "start", "changes", "rollback")
    assert status(client, tx) == "aborted"
    assert committed(topic) == [b"won"]


def test_a_checkpoint_persists_and_continues_under_another_pointer(
    client: tms.Client, topic: tms.Topic
) -> None:
    participant = Noting()
    with client.transaction(participants=[participant]) as tx:
        first = tx.write_pointer
        topic.publish(b"direct", tx)
        topic.publish(b"buffered", tx, buffer=True)
        snapshot = tx.checkpoint()
        assert snapshot == tx.transaction
        assert tx.transaction_id == first < tx.write_pointer
        topic.publish(b"later", tx)
        assert committed(topic) == []
        seen = [message.payload for message in topic.poll(tx=tx)]
        assert seen == [b"direct", b"buffered", b"later"]

    assert participant.calls == of(
        "one", "start", "persist", "update", "changes", "persist", "post_commit"
    )
    assert [each.write_pointer for each in participant.transactions] == [first, tx.write_pointer]
    assert committed(topic) == [b"direct", b"buffered", b"later"]


def test_all_pointers_are_rolled_back(client: tms.Client, topic: tms.Topic) -> None:
    with client.transaction() as tx:
        topic.publish(b"one", tx)
        tx.checkpoint()
        topic.publish(b"two", tx)
        tx.abort()

    assert status(client, tx) == "aborted"
    assert committed(topic) == []


@pytest.mark.parametrize("verb", ["persist", "update"])
def test_a_checkpoint_that_fails_rolls_back(
    client: tms.Client, topic: tms.Topic, verb: str
) -> None:
    participant = Noting(fails_at={verb})
    with client.transaction(participants=[participant]) as tx:
        topic.publish(b"one", tx)
        with pytest.raises(LookupError):
            tx.checkpoint()
        with pytest.raises(RuntimeError, match="has been rolled back"):
            topic.publish(b"two", tx)

    assert participant.calls[-1] == "one.rollback"
    assert status(client, tx) == "aborted"
    assert committed(topic) == []


def test_abort_ends_it_early(client: tms.Client, topic: tms.Topic) -> None:
    participant = Noting()
    with client.transaction(participants=[participant]) as tx:
        topic.publish(b"one", tx)
        tx.abort()
        assert status(client, tx) == "aborted"
        for late in (tx.abort, tx.checkpoint, lambda: topic.publish(b"two", tx)):
            with pytest.raises(RuntimeError, match="has been rolled back"):
                late()

    assert participant.calls == of("one", "start", "rollback")


def test_abort_reports_what_could_not_be_undone(client: tms.Client) -> None:
    with client.transaction(participants=[Noting(fails_at={"rollback"})]) as tx:
        with pytest.raises(LookupError, match="fails at rollback"):
            tx.abort()
        assert status(client, tx) == "invalid"


def test_a_participant_may_join_later(client: tms.Client) -> None:
    late = Noting("late")
    with client.transaction() as tx:
        tx.add(late)
        tx.add(late)
        assert late.calls == ["late.start"]

    assert late.calls == of("late", *COMMIT)
    with pytest.raises(RuntimeError, match="has been committed"):
        tx.add(Noting())


def test_a_transaction_is_used_once_and_within_its_with(
    client: tms.Client, topic: tms.Topic
) -> None:
    tx = client.transaction()
    with pytest.raises(RuntimeError, match="has not begun"):
        topic.publish(b"one", tx)
    with pytest.raises(RuntimeError, match="has not begun"):
        _ = tx.transaction_id
    with tx:
        pass
    with pytest.raises(RuntimeError, match="has been committed"):
        topic.poll(tx=tx)
    with pytest.raises(RuntimeError, match="used once"), tx:
        pass
    assert repr(tx) == f"<TransactionContext {tx.transaction_id} COMMITTED>"


def test_plain_participants_are_called_in_the_thread_that_waits(client: tms.Client) -> None:
    threads: set[int] = set()

    class Lazy(Noting):
        def _note(self, verb: str) -> None:
            threads.add(threading.get_ident())

        def changes(self) -> Iterator[bytes]:  # type: ignore[override]
            threads.add(threading.get_ident())
            yield b"k"

    with client.transaction(participants=[Lazy()]) as tx:
        tx.checkpoint()
    with pytest.raises(LookupError), client.transaction(participants=[Lazy()]):
        raise LookupError

    assert threads == {threading.get_ident()}


def test_a_transaction_that_timed_out_is_rolled_back(client: tms.Client, topic: tms.Topic) -> None:
    participant = Noting()
    with (  # noqa: PT012
        pytest.raises(tms.TransactionNotInProgress),
        client.transaction(participants=[participant]) as tx,
    ):
        topic.publish(b"one", tx)
        client.transactions.invalidate(tx.transaction_id)  # as a time-out does

    assert participant.calls[-1] == "one.rollback"
    assert status(client, tx) in ("invalid", "aborted")
    assert committed(topic) == []


def test_one_that_another_committed_is_committed(client: tms.Client, topic: tms.Topic) -> None:
    """This participant only joined the commit later, which must not be undone here."""

    participant = Noting()

    class Hasty(Noting):
        def persist(self) -> None:
            # Messages persist after this participant, and here there are none.
            client_of_another.commit(tx.transaction_id)

    with client.transaction(owner="o", sequence=1, participants=[participant, Hasty()]) as tx:
        client_of_another = _Committer(client)

    assert participant.calls[-1] == "one.post_commit"
    assert tx.is_committed


class _Committer:
    def __init__(self, client: tms.Client) -> None:
        self._client = client

    def commit(self, transaction_id: int) -> None:
        async_client = self._client._client
        self._client._bridge.call(lambda: async_client.transactions.commit(transaction_id))
