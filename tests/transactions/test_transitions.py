"""The table of transitions, and the diagram made from it."""

from itertools import product

import pytest

from tms.core.errors import TransactionNotInProgress, TransactionUnknown
from tms.core.services.transactions import TransactionStatus
from tms.transactions.transitions import TRANSITIONS, Event, check, diagram

OPEN = {TransactionStatus.IN_PROGRESS, TransactionStatus.COMMITTING}


@pytest.mark.parametrize(("status", "event"), list(product(TransactionStatus, Event)))
def test_what_is_not_in_the_table_is_refused(status: TransactionStatus, event: Event) -> None:
    if (status, event) in TRANSITIONS:
        check(17, status, event)
        return
    with pytest.raises(TransactionNotInProgress) as caught:
        check(17, status, event)
    why = (
        {"reason": "it timed out, or was invalidated"}
        if status is TransactionStatus.INVALID
        else {}
    )
    assert caught.value.detail == {"transaction_id": 17, "status": status.value, **why}


@pytest.mark.parametrize("event", list(Event))
def test_nothing_happens_to_one_that_is_not_known(event: Event) -> None:
    with pytest.raises(TransactionUnknown):
        check(17, None, event)


def test_only_open_ones_commit_and_what_is_committed_stays() -> None:
    committing = {status for status, event in TRANSITIONS if event is Event.COMMIT}
    left = {status for status, _ in TRANSITIONS}

    assert committing == OPEN
    assert TransactionStatus.COMMITTED not in left


def test_the_diagram_has_every_transition() -> None:
    lines = diagram().splitlines()

    assert lines[0] == "stateDiagram-v2"
    for (status, event), after in TRANSITIONS.items():
        assert f"    {status} --> {after or '[*]'}: {event}" in lines
