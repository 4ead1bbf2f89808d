"""Stories of clocks that step, each of which depends on one rule of the store."""

from tables.store import METADATA
from tests.cleanup.twins import LIMITS, NOW_MS, Twin
from tests.contracts.invalid_contract import (
    STAY_MS,
    _timeouts_by_hand,  # noqa: F401  a fixture
    invalid,
    listed,
    pointers,
    started,
)
from tests.manual_clock import ManualClock
from tms.core.runtime.trusted_clock import TrustedClock
from tms.core.values.message import KEY_BYTES
from tms.core.values.topic import TopicId

TOPIC = TopicId("default", "t")
DAY = 86_400_000


def elsewhere(twin: Twin, now_ms: int, *, crashes: bool = True) -> None:
    """Restart the server on another machine, whose clock has this time."""
    twin.clock = ManualClock(now_ms)
    twin.reopen(crashes=crashes)


def starts_far_ahead(twin: Twin) -> None:
    """Start the machine again, with a clock that is 30 days ahead."""
    twin.close()
    twin.clock.reboot()
    twin.clock.step(30 * DAY)
    twin.open()


def versions_ascend(twin: Twin, by_ms: int = -10 * DAY, *, crashes: bool = True) -> None:
    given = []
    for number in range(3):
        subscriptions = twin.services.subscriptions
        created = twin.await_(subscriptions.create_subscription(TOPIC, "s"))
        given.append(created.version)
        twin.await_(subscriptions.delete_subscription(TOPIC, "s"))
        elsewhere(twin, NOW_MS + (number + 1) * by_ms, crashes=crashes)

    assert given == sorted(set(given))


def forget(twin: Twin) -> bytes:
    """Delete and forget the topic; return the last id that it assigned."""
    last = twin.await_(twin.services.messaging.publish(TOPIC, [b"old"])).first_key
    twin.await_(twin.services.messaging.delete_topic(TOPIC))
    twin.clean()
    twin.clock.advance(LIMITS.cleanup_grace_s * 1_000 + 70_000)
    for _ in range(3):
        twin.clean()
    with twin.store.scan(METADATA, b"", b"\xff") as rows:
        assert not list(rows), "the topic is forgotten"
    key: bytes = last[:KEY_BYTES]
    return key


def ids_ascend(twin: Twin, *, crashes: bool = True) -> None:
    """All of the mark is lost except for forgotten topics; the step is believed."""
    last = forget(twin)
    elsewhere(twin, NOW_MS - 10 * DAY, crashes=crashes)
    twin.clock.step(-400 * DAY)
    twin.services.engine.clock.accept(twin.services.engine.clock.state().step_s)  # type: ignore[attr-defined]
    twin.await_(twin.services.messaging.create_topic(TOPIC))
    published = twin.await_(twin.services.messaging.publish(TOPIC, [b"new"]))

    assert published.first_key[:KEY_BYTES] > last


def believe(twin: Twin, step_ms: int) -> None:
    """Step the wall, and let an operator confirm that it is right."""
    twin.clock.step(step_ms)
    clock = twin.services.engine.clock
    assert isinstance(clock, TrustedClock)
    clock.accept(clock.state().step_s)


def transactions_go_on(twin: Twin, step_ms: int = 400 * DAY) -> None:
    """A step ends and refuses no transaction, and their ages are measured by steady time."""
    before = started(twin)
    twin.clock.advance(2_000)
    believe(twin, step_ms)
    after = started(twin)
    twin.clock.advance(3_000)
    twin.await_(twin.transactions._expire())
    twin.await_(twin.services.messaging.publish(TOPIC, [b"1"], before))
    twin.await_(twin.services.messaging.publish(TOPIC, [b"2"], after))
    infos = twin.await_(twin.transactions.in_progress())

    ages = {info.transaction_id: info.age_ms for info in infos}
    assert ages == {before: 5_000, after: 3_000}
    for pointer in (before, after):
        twin.await_(twin.transactions.commit(pointer))
    shown = twin.await_(twin.polled(TOPIC, committed=True))
    assert [payload for _, payload in shown] == [b"1", b"2"]


def cache_and_table_show_the_same(twin: Twin) -> None:
    """Messages expire, are deleted, and do not reappear after a step back."""
    messaging = twin.services.messaging
    twin.await_(messaging.update_topic(TOPIC, {"ttl": DAY // 1_000}))
    twin.await_(messaging.publish(TOPIC, [b"deleted"]))
    believe(twin, 2 * DAY)
    twin.await_(messaging.publish(TOPIC, [b"kept"]))
    twin.clean()
    believe(twin, -2 * DAY)
    cached = twin.await_(twin.polled(TOPIC))
    twin.reopen(crashes=False)

    assert cached == twin.await_(twin.polled(TOPIC))


def a_dead_message_far_from_its_pointer(twin: Twin) -> None:
    """Pointers are ahead of keys, as if the clock was wrong when the store was opened."""
    twin.clock.advance(100 * DAY)
    twin.await_(twin.transactions.commit(started(twin)))
    believe(twin, -100 * DAY)
    twin.reopen(crashes=False)
    invalid(twin, b"dead")
    twin.reopen(crashes=True)
    twin.clean()
    believe(twin, 200 * DAY)
    _is_forgotten_without_a_trace(twin)


def a_dead_message_far_behind_its_pointer(twin: Twin) -> None:
    """Keys are ahead of pointers, as if the clock was wrong while a server ran."""
    twin.clock.step(100 * DAY)
    invalid(twin, b"dead")
    twin.reopen(crashes=True)
    twin.clean()
    twin.clock.advance(STAY_MS + 1)
    _is_forgotten_without_a_trace(twin)


DEAD_MESSAGES = [a_dead_message_far_from_its_pointer, a_dead_message_far_behind_its_pointer]


def _is_forgotten_without_a_trace(twin: Twin) -> None:
    twin.clean()
    assert listed(twin) == [], "it was taken off the list"
    twin.await_(twin.transactions.commit(started(twin)))
    assert not any(pointer > 0 for pointer in pointers(twin))
