"""Entries of invalid transactions are inverted, and the list is truncated, never too early."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from cleanup.invalid import bound_of
from tests.cleanup.clock_stories import DEAD_MESSAGES, starts_far_ahead
from tests.cleanup.twins import NOW_MS, Twin
from tests.contracts.invalid_contract import (  # noqa: F401  run here on memory
    OTHER,
    STAY_MS,
    TOPIC,
    _timeouts_by_hand,
    committed,
    invalid,
    listed,
    pointers,
    publish,
    started,
    test_a_dead_message_is_never_seen_by_whom_cleanup_knows_it,
    test_a_pass_with_nothing_new_writes_nothing,
    test_an_older_reader_holds_the_inversion,
    test_checkpoints_are_inverted_too,
    test_one_that_waits_holds_the_bound_and_not_the_inversion_of_others,
    test_references_are_inverted_and_their_payloads_stay,
)
from tests.manual_clock import ManualClock
from tms.core.errors import StoreUnavailable


@pytest.fixture
def twin() -> Iterator[Twin]:
    loop = asyncio.new_event_loop()
    twin = Twin(loop, ManualClock(NOW_MS))
    for topic_id in (TOPIC, OTHER):
        twin.await_(twin.services.messaging.create_topic(topic_id))
    yield twin
    twin.close()
    loop.close()


def test_after_a_start_far_ahead_the_dead_stay_listed(twin: Twin) -> None:
    pointer = invalid(twin, b"dead")
    starts_far_ahead(twin)
    twin.clean()

    assert bound_of(twin.store) >= pointer
    assert listed(twin) == [pointer]


def test_truncating_before_the_bound_would_show_the_dead(twin: Twin) -> None:
    """This is why inversion, bound and truncation happen in this order."""
    pointer = invalid(twin, b"dead")
    assert committed(twin) == []
    twin.truncate([pointer])

    assert committed(twin) == [b"dead"]


def test_what_a_flush_wrote_that_came_to_light_late_is_not_passed_over(
    twin: Twin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is reopened during the pass, so the batch of the bound is refused."""
    pointer = invalid(twin, b"dead")
    write = twin.store.write

    def refuse(batch: object) -> None:
        if any(table == "bound" for table, _, _ in batch.writes):  # type: ignore[attr-defined]
            raise StoreUnavailable(reason="opened again")
        write(batch)  # type: ignore[arg-type]

    monkeypatch.setattr(twin.store, "write", refuse)
    with pytest.raises(StoreUnavailable):
        twin.clean()
    assert bound_of(twin.store) == 0
    monkeypatch.undo()
    twin.clock.advance(STAY_MS + 1)
    twin.clean()

    assert bound_of(twin.store) >= pointer
    assert listed(twin) == []


@pytest.mark.parametrize("by_ms", [-3_600_000, 3_600_000])
def test_a_clock_set_elsewhere_hides_nothing_from_the_process_that_wrote_it(
    twin: Twin, by_ms: int
) -> None:
    pointer = started(twin)
    twin.clock.advance(by_ms)
    twin.clock.advance(-by_ms if by_ms > 0 else 0)
    publish(twin, b"dead", pointer=pointer)
    twin.await_(twin.transactions.invalidate(pointer))
    twin.clean()

    assert pointers(twin) == [-pointer]


def test_an_abort_after_a_restart_shows_nothing_of_an_invalid_transaction(twin: Twin) -> None:
    """The transaction's earlier publications are no longer known, so it stays invalid."""
    pointer = invalid(twin, b"dead")
    twin.reopen(crashes=False)
    twin.await_(twin.transactions.abort(pointer))

    assert committed(twin) == []
    assert listed(twin) == [pointer]


@pytest.mark.parametrize("story", DEAD_MESSAGES)
def test_a_dead_message_is_found_however_far_from_its_pointer(
    twin: Twin, story: Callable[[Twin], None]
) -> None:
    story(twin)
