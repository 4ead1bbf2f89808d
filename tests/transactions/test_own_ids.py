"""The write pointers of a shard: each identifies its shard, and they ascend."""

from hypothesis import given
from hypothesis import strategies as st

from tests.transactions.living import FIRST, NOW_MS, Living
from tms.core.limits import Limits
from tms.core.values.shards import OwnIds
from tms.transactions.commands import TransactionState
from tms.transactions.edits import EditKind
from tms.transactions.snapshot_codec import decode_snapshot

IDS = st.integers(1, 64).flatmap(lambda n: st.builds(OwnIds, st.integers(0, n - 1), st.just(n)))
STEPS = st.lists(st.sampled_from(["start", "checkpoint", "at once", "forget", "later"]))


def given_pointers(living: Living) -> list[int]:
    kinds = (EditKind.STARTED, EditKind.CHECKPOINT)
    return [each.write_pointer for each in living.edits if each.kind in kinds or each.at_once]


def do(living: Living, step: str) -> None:
    match step:
        case "start":
            living.start()
        case "checkpoint":
            transaction = living.start()
            living.do(living.state.checkpoint(transaction.transaction_id, living.now_ms))
        case "at once":
            living.at_once("till", len(living.edits))
        case "forget":
            living.at_once("till", len(living.edits))
            living.do(living.state.forget_owner("till", living.now_ms))
        case _:
            living.now_ms += 1


@given(IDS, STEPS)
def test_every_pointer_is_an_own_one_and_they_ascend(ids: OwnIds, steps: list[str]) -> None:
    living = Living(state=TransactionState(Limits(), NOW_MS, ids))
    for step in steps:
        do(living, step)

    pointers = given_pointers(living)
    assert all(map(ids.has, pointers))
    assert pointers == sorted(set(pointers))
    assert all(pointer > FIRST for pointer in pointers)


def test_golden() -> None:
    living = Living(state=TransactionState(Limits(), NOW_MS, OwnIds(2, 16)))
    for step in ("start", "at once", "later", "start"):
        do(living, step)

    assert [pointer - FIRST for pointer in given_pointers(living)] == [2, 18, 1_000_002]


def test_they_continue_behind_a_snapshot() -> None:
    ids = OwnIds(2, 3)
    before = Living(state=TransactionState(Limits(), NOW_MS, ids))
    do(before, "start")

    after = Living(state=decode_snapshot(before.snapshot(), Limits(), ids))
    do(after, "start")

    assert ids.has(given_pointers(after)[0])
    assert given_pointers(after) > given_pointers(before)
