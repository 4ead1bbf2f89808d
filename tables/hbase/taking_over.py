"""Takes a store over: the server finishes the last server's incomplete batch.

Calls of the dead server may still take effect. A single server waits until none can be in progress.
A leader need not wait: late rows of earlier leaders are hidden (`tables.sealing`), and their
intents do not count once there is one with its token.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from tables.hbase import intents, open_marks
from tables.hbase.fence import LATER_LEADER_USED_STORE, FencedRows, raise_fence
from tables.hbase.regions import KEYS_ONLY
from tables.hbase.writes import Run
from tables.store import TRANSACTION
from tms.core.errors import OutcomeUnknown, StoreUnavailable

_log = logging.getLogger(__name__)


class StoreRows(FencedRows, Protocol):
    """The rows that a store's servers leave for one another. All methods may fail as writes do."""

    @property
    def timeout_s(self) -> float:
        """The time after which no call that was sent can still be in progress."""
        ...

    def special_rows(
        self, start: bytes, stop: bytes, row_filter: bytes | None = None
    ) -> Mapping[bytes, bytes]:
        """Return rows of the Transaction table that have no bucket, as HBase has them."""
        ...

    def carry_out(self, runs: Sequence[Run]) -> None:
        """Carry out runs."""
        ...


class TakenOver(NamedTuple):
    """The state from which the new server continues."""

    token: int
    """The token of its intents."""
    intent: int
    """The number of the latest intent."""


def take_over(rows: StoreRows, wait: Callable[[float], object], token: int) -> TakenOver:
    """Become the store's only server, under the token of a lease, or 0 without one.

    Raises as `HBaseStore.take_over` does.
    """
    if token:
        raise_fence(rows, token)
    marks = rows.special_rows(*open_marks.RANGE)
    _wait_for_the_last(marks, wait, rows.timeout_s, token)
    keys = list(rows.special_rows(*intents.RANGE, KEYS_ONLY))
    last = max(map(intents.token_of, keys), default=0)
    if 0 < token < last:
        raise StoreUnavailable(reason=LATER_LEADER_USED_STORE, token=token, later_token=last)
    unfinished = intents.latest(rows.stored, last)
    if unfinished.runs:
        _finish(rows, unfinished, last)
    if token > last:
        rows.carry_out([intents.done(unfinished.number, token)])
        rows.carry_out([Run(TRANSACTION, is_delete=True, rows=dict.fromkeys(keys, b""))])
    rows.carry_out([open_marks.opened(token)])
    if token:
        rows.carry_out([open_marks.closed_alone()])
        rows.carry_out([open_marks.taken_away(marks, token - 1)])
    return TakenOver(max(token, last), unfinished.number)


def _wait_for_the_last(
    marks: Mapping[bytes, bytes], wait: Callable[[float], object], timeout_s: float, token: int
) -> None:
    if not token:
        open_marks.check_alone(marks)
    mark = marks.get(open_marks.OPEN_KEY)
    if mark:
        _log.warning(
            "an earlier server did not close the store (%s): waiting %.0f s, until none of its "
            "writes can still arrive",
            mark.decode(errors="replace"),
            timeout_s,
        )
        wait(timeout_s)


def _finish(rows: StoreRows, unfinished: intents.Intent, token: int) -> None:
    _log.warning("finishing a half-done write of an earlier server")
    for run in unfinished.runs:
        try:
            rows.carry_out([run])
        except (StoreUnavailable, OutcomeUnknown) as error:
            if "refused" not in error.detail:
                raise
            _log.exception("HBase refuses a part of it permanently; the rest is given up")
            break
    rows.carry_out([intents.done(unfinished.number, token)])


def release(rows: StoreRows, through: int) -> bool:
    """Delete the marks of leaders up to a token; return whether there were any.

    The next server to open the store waits as after a server that died. A later leader's mark
    stays.
    """
    marks = open_marks.of_clusters(rows.special_rows(*open_marks.RANGE))
    taken = open_marks.taken_away(marks, through)
    if not marks or len(taken.rows) < len(marks):
        return False
    rows.carry_out([open_marks.released_by_cluster()])
    rows.carry_out([taken])
    return True
