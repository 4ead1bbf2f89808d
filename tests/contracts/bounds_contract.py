"""A topic's bound spares the messages of open transactions, on any store; subclasses give `twin`.

Tests run cleanup passes by hand, so that anything can happen between two steps of a pass.
"""

from collections.abc import Callable

import pytest

from cleanup.ranges import Reason
from tests.cleanup.twins import Twin
from tms.core.errors import StoreUnavailable
from tms.core.services.commits import CommitRequest, Stored
from tms.core.services.transactions import StartRequest
from tms.core.values.frame import bodies_of, encode_body
from tms.core.values.topic import TopicId
from tms.core.values.transaction import TransactionType
from tms.transactions import service

TOPIC = TopicId("ns", "kept")
ELSEWHERE = TopicId("ns", "other")
BOUND = 100


@pytest.fixture(autouse=True)
def _timeouts_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_TICK_S", 1_000_000.0)


def create(twin: Twin, **properties: object) -> None:
    messaging = twin.services.messaging
    twin.await_(messaging.create_topic(TOPIC, properties or {"retention_messages": BOUND}))
    twin.await_(messaging.create_topic(ELSEWHERE, {}))


def started(twin: Twin, *, long: bool = False) -> int:
    kind = TransactionType.LONG if long else TransactionType.SHORT
    return twin.await_(twin.transactions.start(StartRequest(type=kind))).transaction_id


def named(name: str, count: int, first: int = 0) -> list[bytes]:
    return [b"%s%d" % (name.encode(), number) for number in range(first, first + count)]


def publish(
    twin: Twin, payloads: list[bytes], pointer: int | None = None, topic: TopicId = TOPIC
) -> None:
    """Publish each payload in a millisecond of its own."""
    for payload in payloads:
        twin.clock.advance(1)
        twin.await_(twin.services.messaging.publish(topic, [payload], pointer))
    twin.clock.advance(1)


def store(twin: Twin, payloads: list[bytes], pointer: int) -> None:
    twin.clock.advance(1)
    twin.await_(twin.services.messaging.store(TOPIC, payloads, pointer))
    twin.clock.advance(1)


def commit(twin: Twin, pointer: int, *stored: int) -> None:
    """Commit a transaction, and publish in the same request what was stored under pointers."""
    publish = [Stored(TOPIC, each) for each in stored]
    twin.await_(twin.transactions.commit(pointer, CommitRequest(publish=publish)))


def publish_stored(twin: Twin, pointer: int) -> None:
    """Publish what was stored, in a request of its own."""
    twin.await_(twin.services.messaging.publish(TOPIC, [], pointer))


def read(twin: Twin, topic: TopicId = TOPIC, *, committed: bool = True) -> list[bytes]:
    return [payload for _, payload in twin.await_(twin.polled(topic, committed=committed))]


@pytest.mark.parametrize("way", ["commit", "publish", "reopened"])
def test_what_is_stored_for_a_transaction_stays_until_it_has_ended(twin: Twin, way: str) -> None:
    create(twin)
    pointer = started(twin)
    store(twin, named("a", 50), pointer)
    publish(twin, named("other", 150))
    twin.clean()
    if way == "reopened":
        twin.reopen(crashes=True)
        twin.clean()
    store(twin, named("b", 50), pointer)
    twin.clean()
    if way == "publish":
        publish_stored(twin, pointer)
        twin.clean()
        commit(twin, pointer)
    else:
        commit(twin, pointer, pointer)

    assert read(twin)[-100:] == named("a", 50) + named("b", 50)
    twin.clean()
    assert read(twin)[-100:] == named("a", 50) + named("b", 50)
    publish(twin, named("later", 150))
    twin.clean()
    assert read(twin) == named("later", 100, 50)


def test_a_bound_goes_up_to_the_oldest_row_of_a_transaction(twin: Twin) -> None:
    """This holds even if the transaction began long before."""
    create(twin)
    pointer = started(twin)
    publish(twin, named("before", 300))
    store(twin, [b"stored"], pointer)
    publish(twin, named("after", 300))
    twin.clean()
    assert read(twin) == named("after", 300)
    publish(twin, [b"mine"], pointer)
    publish(twin, named("later", 300))
    twin.clean()
    assert read(twin, committed=False) == [*named("after", 300), b"mine", *named("later", 300)]
    twin.await_(twin.transactions.invalidate(pointer))
    twin.clean()  # inverts what is invalid
    twin.clean()
    assert read(twin) == named("later", 100, 200)


def test_transactions_of_other_topics_do_not_matter(twin: Twin) -> None:
    create(twin)
    elsewhere = started(twin, long=True)
    publish(twin, [b"elsewhere"], elsewhere, ELSEWHERE)
    twin.await_(twin.services.messaging.store(ELSEWHERE, [b"elsewhere"], elsewhere))
    for number in range(5):
        publish(twin, named("plain", 300, number * 300))
        publish(twin, [b"%d" % number], pointer := started(twin))
        commit(twin, pointer)
        twin.clean()
        left = read(twin, committed=False)
        assert left == [*named("plain", 99, number * 300 + 201), b"%d" % number]


def test_what_is_counted_before_an_undecided_entry_is_applied(twin: Twin) -> None:
    create(twin)
    publish(twin, named("before", 150))
    publish(twin, [b"mine"], pointer := started(twin))
    publish(twin, named("after", 20))
    twin.clean()
    assert read(twin, committed=False) == [*named("before", 100, 50), b"mine", *named("after", 20)]
    commit(twin, pointer)
    twin.clean()
    assert read(twin) == [*named("before", 79, 71), b"mine", *named("after", 20)]


def test_what_was_committed_behind_an_undecided_entry_stays_whole(twin: Twin) -> None:
    """The reference is not counted yet, and the messages were stored before those trimmed."""
    create(twin)
    store(twin, named("a", 50), stored := started(twin))
    publish(twin, named("plain", 150))
    publish(twin, [b"mine"], waits := started(twin))
    commit(twin, stored, stored)
    for _ in range(2):
        twin.clean()
        assert read(twin, committed=False)[-50:] == named("a", 50)
    commit(twin, waits)
    for _ in range(2):
        twin.clean()
        assert read(twin)[-51:] == [b"mine", *named("a", 50)]
    publish(twin, named("later", 100))
    twin.clean()
    assert read(twin) == named("later", 100)


@pytest.mark.parametrize("commits", [False, True])
@pytest.mark.parametrize("set_back_ms", [0, 1_000])
def test_a_pass_learns_of_what_is_stored_while_it_is_made(
    twin: Twin, monkeypatch: pytest.MonkeyPatch, *, commits: bool, set_back_ms: int
) -> None:
    """At each step of a pass, or before it reads something, somebody stores, and others publish."""
    create(twin, retention_messages=10)
    for at in range(1, 26):
        publish(twin, named("plain", 15))
        with monkeypatch.context() as patched:
            pointer = stored_in_a_pass(twin, patched, at, set_back_ms, commits=commits)
        if pointer and not commits:
            commit(twin, pointer, pointer)
        if pointer:
            assert read(twin)[-2:] == named("stored", 2), f"at {at}"
    assert not pointer, "it came to the end of a pass"


def stored_in_a_pass(
    twin: Twin, patched: pytest.MonkeyPatch, at: int, set_back_ms: int, *, commits: bool
) -> int:
    """Make a pass with a transaction at one place of it; return its pointer, 0 if no such place."""
    places = pointer = 0

    def come() -> None:
        nonlocal places, pointer
        places += 1
        if places != at:
            return
        pointer = started(twin)
        twin.clock.advance(-set_back_ms)
        store(twin, named("stored", 2), pointer)
        twin.clock.advance(set_back_ms)
        publish(twin, named("between", 15))
        if commits:
            commit(twin, pointer, pointer)

    def asked(question: Callable[..., object]) -> Callable[..., object]:
        def answered(*arguments: object) -> object:
            come()
            return question(*arguments)

        return answered

    for name in ("written", "trim", "invalid_list"):
        patched.setattr(twin, name, asked(getattr(twin, name)))
    for step in twin.passed():
        if step.reason is Reason.RETENTION:
            come()
    return pointer


def test_what_is_invalid_holds_nothing(twin: Twin) -> None:
    create(twin)
    pointer = started(twin)
    store(twin, named("a", 50), pointer)
    publish_stored(twin, pointer)
    older = started(twin)  # prevents the inversion of the invalid transaction's messages
    twin.await_(twin.transactions.invalidate(pointer))
    publish(twin, named("plain", 150))
    twin.clean()
    twin.clean()
    assert read(twin) == named("plain", 100, 50)
    commit(twin, older)


def test_checkpoints_hold_what_is_stored_under_them(twin: Twin) -> None:
    create(twin)
    pointer = started(twin)
    task = twin.await_(twin.transactions.checkpoint(pointer)).write_pointer
    lost = twin.await_(twin.transactions.checkpoint(pointer)).write_pointer
    store(twin, named("task", 50), task)
    store(twin, named("lost", 50), lost)
    publish(twin, named("plain", 150))
    twin.clean()
    commit(twin, pointer, task)
    assert read(twin)[-50:] == named("task", 50)
    twin.clean()
    assert read(twin)[-50:] == named("task", 50)


def test_a_reference_that_could_not_be_read_is_counted_by_the_next_pass(
    twin: Twin, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(twin)
    store(twin, named("a", 50), pointer := started(twin))
    publish(twin, named("plain", 60))
    commit(twin, pointer, pointer)
    scan = twin.store.scan

    def fails(table: str, *arguments: object, **options: object) -> object:
        if table == "payload":
            raise StoreUnavailable(reason="for a moment")
        return scan(table, *arguments, **options)  # type: ignore[arg-type]

    rules, topic = twin.cleaner._rules, twin.await_(twin.services.messaging.topic(TOPIC))
    assert rules is not None
    rules.begin_pass(is_on_demand=True)
    with monkeypatch.context() as patched:
        patched.setattr(twin.store, "scan", fails)
        with pytest.raises(StoreUnavailable):
            list(rules.steps(topic))
    publish(twin, named("later", 60))
    twin.clean()
    assert read(twin) == [*named("plain", 60), *named("a", 50), *named("later", 60)]


def test_a_trim_by_hand_takes_what_a_transaction_has_written(twin: Twin) -> None:
    """The trim names a time, which includes what the transaction had stored by then."""
    create(twin)
    store(twin, named("a", 2), pointer := started(twin))
    publish(twin, named("plain", 3))
    twin.await_(twin.services.messaging.trim_topic(TOPIC, twin.clock.now_ms()))
    store(twin, named("b", 2), pointer)
    commit(twin, pointer, pointer)
    assert read(twin) == named("b", 2)


def test_bytes_are_those_of_payloads_keys_and_headers(twin: Twin) -> None:
    create(twin, retention_bytes=60)
    framed = bodies_of([encode_body(b"four", b"key", {"name": b"abc"})])  # 14 bytes
    pointer = started(twin)
    for _ in range(5):
        twin.clock.advance(1)
        twin.await_(twin.services.messaging.publish(TOPIC, framed))
        twin.clock.advance(1)
        twin.await_(twin.services.messaging.publish(TOPIC, [b"sixsix"], pointer))
    twin.clock.advance(1)
    twin.await_(twin.services.messaging.store(TOPIC, framed, pointer))
    commit(twin, pointer, pointer)
    twin.clean()
    # Stored messages come last, as they were written last. 14 + 2 * 20 bytes are below the bound,
    # so one more message stays.
    assert read(twin) == [b"sixsix", *[b"four", b"sixsix"] * 2, b"four"]
