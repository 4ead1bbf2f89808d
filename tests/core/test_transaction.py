"""Visibility: the golden decisions of CDAP's filter, and Tephra's own test cases."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.core.transactions import transaction_of
from tms.core.values.transaction import Transaction, Visibility, VisibilityLevel

GOLDEN = json.loads((Path(__file__).parent.parent / "wire" / "golden.json").read_text())
OF_CDAP = {"ACCEPT": Visibility.GIVE, "SKIP": Visibility.SKIP, "HOLD": Visibility.STOP}


@pytest.mark.parametrize("golden", GOLDEN["transactions"], ids=lambda g: g["name"])
def test_it_decides_as_cdaps_filter(golden: dict[str, Any]) -> None:
    transaction = transaction_of(golden)
    for case in golden["visibility"]:
        pointer = int(case["writePointer"])
        assert transaction.is_visible(pointer) == case["isVisible"]
        assert transaction.decide(pointer) is OF_CDAP[case["filter"]]


@pytest.mark.parametrize(
    ("level", "own_seen"),
    [
        (VisibilityLevel.SNAPSHOT, {200, 220, 250}),
        (VisibilityLevel.SNAPSHOT_ALL, {200, 220, 250}),
        (VisibilityLevel.SNAPSHOT_EXCLUDE_CURRENT, {200, 220}),
    ],
)
def test_tephras_visibility_with_checkpoints(level: VisibilityLevel, own_seen: set[int]) -> None:
    """TransactionTest.testSnapshotVisibility of Tephra."""
    transaction = Transaction(
        read_pointer=100,
        transaction_id=200,
        write_pointer=250,
        invalids=(90, 110, 190, 201, 221, 231),
        in_progress=(95, 120, 150, 205, 215, 300),
        checkpoint_write_pointers=(220, 250),
        visibility_level=level,
    )

    committed_before = {80, 99, 100}
    others = {150, 180, 210, 90, 110, 190, 201, 221, 231, 95, 120, 205, 215, 300}
    seen = {p for p in committed_before | others | {200, 220, 250} if transaction.is_visible(p)}
    assert seen == committed_before | own_seen
