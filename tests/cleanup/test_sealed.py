"""Sealed rows, as inspection and copies see them."""

import pytest

from cleanup.inspection import Inspection, row_facts
from cleanup.verification import CHECKED_BY_ROW, Verification
from tables.copying import Copying
from tables.memory import MemoryStore
from tables.sealing.store import SealedStore
from tables.store import MESSAGE, METADATA
from tables.transaction_table import StoreTransactionTable
from tests.contracts.store_contract import rows_of
from tests.tables.sealing.sealed_world import (
    TOPIC,
    World,
    message_rows,
    publish,
    seen,
    with_topic,
)
from tms.core.limits import Limits
from tms.core.values.message import MessageId
from tms.transactions.recovery import recover

NOW_MS = 1_000


def problems(verification: Verification) -> list[str]:
    """Return all problems of a store."""
    found = verification.prepared()
    for table in CHECKED_BY_ROW:
        found += verification.of_rows(table, verification.rows(table), is_cleaned=False)
    return found


@pytest.fixture
def world() -> World:
    return with_topic()


@pytest.fixture
def second(world: World) -> SealedStore:
    """A leader for whom a row arrived late."""
    second = world.leader(2)
    publish(second, 110)
    world.late(30)
    return second


def test_it_says_why_nobody_is_given_a_row(second: SealedStore) -> None:
    look = Inspection(second, Limits(), NOW_MS)

    late, shown = [look.explain(TOPIC, MessageId(ms, 0).encode()) for ms in (30, 110)]

    assert late["said"] == [
        "It is hidden by a seal: an earlier leader sent it too late; no reader gets it."
    ]
    assert shown["said"] == ["It belongs to no transaction: all readers get it."]
    rows = look.rows(MESSAGE, *look.range_of(MESSAGE, TOPIC, None))
    assert [row_facts(MESSAGE, row)["published_ms"] for row in rows] == [10, 20, 30, 110]


def test_sealed_rows_are_counted_and_are_not_problems(second: SealedStore) -> None:
    verification = Verification(second, Limits(), NOW_MS)

    assert problems(verification) == []
    assert verification.without_payloads == 0
    assert verification.sealed == 1


def test_late_rows_of_the_log_are_not_problems(world: World) -> None:
    table = StoreTransactionTable(world.rows)
    recover(table, Limits(), NOW_MS, 1)
    found = recover(table, Limits(), NOW_MS, 2)
    table.put_snapshot(found.next_sequence, table.snapshot(table.snapshots()[0]))
    table.drop_before(found.next_sequence, 1_000)
    table.put_row(found.next_sequence - 2**40, b"late")

    assert problems(Verification(world.rows, Limits(), NOW_MS)) == []


def test_a_copy_has_only_what_is_shown(second: SealedStore) -> None:
    target = MemoryStore()
    copying = Copying(second, target, "a test")

    list(copying.steps((), ()))

    assert rows_of(target, MESSAGE) == message_rows([10, 20, 110])
    assert [row for _, row in rows_of(target, METADATA)] == [b'{"generation":"1","ttl":"60"}']
    assert seen(second) == [10, 20, 110]
