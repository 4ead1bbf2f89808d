"""Snapshot isolation, compared with a plain model, whatever happens in whatever order.

The model records the transactions, their outcomes, and the order in which they started and
committed. From these follow the messages that each must see and the commits that must be refused. A
state recovered from its log and snapshots must equal the living one.
"""

from hypothesis import settings

from tests.scale import scaled
from tests.transactions.isolation import Isolation
from tests.transactions.living import Living
from tms.core.values.caller import Caller
from tms.core.values.transaction import TransactionType
from tms.transactions.snapshot_history import Excluded

Isolation.TestCase.settings = settings(max_examples=scaled(80), stateful_step_count=40)
TestIsolation = Isolation.TestCase


def test_no_lists_kept_makes_no_difference() -> None:
    living = Living()
    living.state.excluded = Excluded(living.state.opened, living.state.invalids, 0)
    others = [living.start() for _ in range(3)]
    reader = living.start()
    for other in others:
        living.commit(other)

    assert living.state.transaction(reader.transaction_id) == reader
    assert reader.in_progress == tuple(other.transaction_id for other in others)


def test_a_replay_settles_an_invalid_pointer_that_was_truncated_as_a_snapshot_does() -> None:
    model, caller = Isolation(), Caller()

    def start() -> None:
        model.start(timeout_s=1, type_=TransactionType.SHORT, caller=caller)

    start()
    start()
    model.invalidate(pick=0, caller=caller)
    model.commit(pick=0, caller=caller)
    model.living.snapshot()
    start()
    model.truncate(pick=0, whole=False)
    model.crash(goes_on=False, forgets=False)
