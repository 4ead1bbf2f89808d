"""How cleanup treats invalid transactions on any store; a module that runs it provides `twin`."""

import pytest

from cleanup.invalid import bound_of
from tables.keys import prefix, write_pointer_of
from tables.store import MESSAGE
from tests.cleanup.twins import LIMITS, Twin
from tms.core.services.transactions import StartRequest
from tms.core.values.topic import TopicId
from tms.transactions import service

TOPIC = TopicId("ns", "t")
OTHER = TopicId("ns", "other")
STAY_MS = (LIMITS.transaction_lifetime_s_max + LIMITS.cleanup_grace_s) * 1000


@pytest.fixture(autouse=True)
def _timeouts_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_TICK_S", 1_000_000.0)


def started(twin: Twin) -> int:
    return twin.await_(twin.transactions.start(StartRequest())).transaction_id


def publish(twin: Twin, *payloads: bytes, pointer: int | None = None) -> None:
    twin.await_(twin.services.messaging.publish(TOPIC, payloads, pointer))


def invalid(twin: Twin, *payloads: bytes) -> int:
    """Publish in a transaction, then make it invalid."""
    pointer = started(twin)
    publish(twin, *payloads, pointer=pointer)
    twin.await_(twin.transactions.invalidate(pointer))
    return pointer


def pointers(twin: Twin) -> list[int]:
    """The pointers in the topic's rows, as stored."""
    start = prefix(TOPIC, 1)
    with twin.store.scan(MESSAGE, start, start + b"\xff") as rows:
        return [write_pointer_of(value) for _, value in rows if value[0]]


def committed(twin: Twin) -> list[bytes]:
    return [payload for _, payload in twin.await_(twin.polled(TOPIC, committed=True))]


def listed(twin: Twin) -> list[int]:
    found = twin.invalid_list()
    assert found is not None
    return list(found.since)


@pytest.mark.parametrize("crashes", [None, False, True])
def test_a_dead_message_is_never_seen_by_whom_cleanup_knows_it(
    twin: Twin, *, crashes: bool | None
) -> None:
    publish(twin, b"1")
    pointer = invalid(twin, b"dead", b"dead")
    publish(twin, b"2")
    if crashes is not None:
        twin.reopen(crashes=crashes)
    assert twin.clean() == 2
    assert pointers(twin) == [-pointer, -pointer]
    assert listed(twin) == [pointer], "the longest lifetime and a grace have not gone"
    assert bound_of(twin.store) >= pointer

    twin.clock.advance(STAY_MS - 1)
    twin.clean()
    assert listed(twin) == [pointer]
    twin.clock.advance(2)
    twin.clean()
    assert listed(twin) == []
    twin.reopen(crashes=True)

    assert committed(twin) == [b"1", b"2"]
    assert [payload for _, payload in twin.await_(twin.polled(TOPIC))] == [
        b"1", b"dead", b"dead", b"2",
    ]  # fmt: skip


def test_an_older_reader_holds_the_inversion(twin: Twin) -> None:
    pointer = started(twin)
    publish(twin, b"dead", pointer=pointer)
    publish(twin, b"1")
    reader = started(twin)
    twin.await_(twin.transactions.invalidate(pointer))
    assert twin.await_(twin.polled(TOPIC, reader)) == [], "it stops at what was in progress"
    twin.clean()
    assert pointers(twin) == [pointer]
    assert twin.await_(twin.polled(TOPIC, reader)) == []
    twin.clock.advance(10 * STAY_MS)
    twin.clean()
    assert listed(twin) == [pointer]
    assert bound_of(twin.store) < pointer

    twin.await_(twin.transactions.commit(reader))
    twin.clean()
    assert pointers(twin) == [-pointer]
    assert listed(twin) == []
    assert committed(twin) == [b"1"]


def test_one_that_waits_holds_the_bound_and_not_the_inversion_of_others(twin: Twin) -> None:
    first = started(twin)
    publish(twin, b"dead", pointer=first)
    reader = started(twin)
    second = invalid(twin, b"dead")
    twin.await_(twin.transactions.commit(reader))
    third = started(twin)
    twin.await_(twin.transactions.invalidate(first))
    assert twin.clean() == 1
    assert pointers(twin) == [first, -second]
    assert bound_of(twin.store) < first
    twin.await_(twin.transactions.commit(third))
    assert twin.clean() == 1

    assert pointers(twin) == [-first, -second]
    assert bound_of(twin.store) >= second


def test_a_pass_with_nothing_new_writes_nothing(
    twin: Twin, monkeypatch: pytest.MonkeyPatch
) -> None:
    invalid(twin, b"dead")
    twin.clean()
    with monkeypatch.context() as patched:
        patched.setattr(twin.store, "write", None)
        assert twin.clean() == 0


def test_references_are_inverted_and_their_payloads_stay(twin: Twin) -> None:
    pointer = started(twin)
    twin.await_(twin.services.messaging.store(TOPIC, [b"stored"], pointer))
    publish(twin, pointer=pointer)
    twin.await_(twin.transactions.invalidate(pointer))
    twin.clean()

    assert pointers(twin) == [-pointer]
    assert [payload for _, payload in twin.await_(twin.polled(TOPIC))] == [b"stored"]


def test_checkpoints_are_inverted_too(twin: Twin) -> None:
    first = started(twin)
    publish(twin, b"dead", pointer=first)
    second = twin.await_(twin.transactions.checkpoint(first)).write_pointer
    publish(twin, b"dead", pointer=second)
    twin.await_(twin.transactions.invalidate(first))
    twin.clean()
    assert pointers(twin) == [-first, -second]
    twin.clock.advance(STAY_MS + 1)
    twin.clean()

    assert listed(twin) == []
    assert committed(twin) == []
