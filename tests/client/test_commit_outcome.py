"""A commit that got no answer: its status is queried, it is repeated, and nothing is guessed."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

import tms
from tms.client.transactions.commit_outcome import Commit
from tms.core.services.commits import NOTHING, CommitRequest
from tms.core.services.transactions import TransactionInfo, TransactionStatus
from tms.core.values.transaction import TransactionType

pytestmark = pytest.mark.anyio

LOST = tms.OutcomeUnknown(reason="cut")
AWAY = tms.ServerUnreachable(reason="gone")


class Answers:
    """A transaction manager that answers from a list; `info` returns the status."""

    def __init__(self, *answers: TransactionStatus | BaseException | None) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    def _answer(self, verb: str) -> Any:
        self.asked.append(verb)
        answer = self._answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def commit(self, transaction_id: int, request: CommitRequest = NOTHING) -> None:
        await anyio.lowlevel.checkpoint()
        assert self._answer("commit") is None

    async def info(self, transaction_id: int) -> TransactionInfo:
        await anyio.lowlevel.checkpoint()
        return TransactionInfo(
            transaction_id=transaction_id,
            status=self._answer("info"),
            type=TransactionType.SHORT,
            write_pointers=[transaction_id],
            started_ms=0,
            expires_ms=None,
        )


async def finished(*answers: TransactionStatus | BaseException | None, for_s: float = 5.0) -> str:
    """Return the requests made, or raise the commit's error with the requests as a note."""
    asked = Answers(*answers)
    try:
        await Commit(asked, 7, NOTHING).finish(for_s)  # type: ignore[arg-type]
    except tms.TmsError as error:
        error.add_note(" ".join(asked.asked))
        raise
    return " ".join(asked.asked)


@pytest.mark.parametrize("lost", [LOST, tms.InternalError()])
async def test_a_lost_commit_that_was_carried_out_is_done(lost: tms.TmsError) -> None:
    assert await finished(lost, TransactionStatus.COMMITTED) == "commit info"


@pytest.mark.parametrize("status", ["in_progress", "committing"])
async def test_a_lost_commit_that_was_not_carried_out_is_repeated(status: str) -> None:
    assert await finished(LOST, TransactionStatus(status), None) == "commit info commit"


async def test_one_that_arrives_late_is_noticed() -> None:
    ended = tms.TransactionNotInProgress(status="committed")
    asked = await finished(LOST, TransactionStatus.IN_PROGRESS, ended, TransactionStatus.COMMITTED)
    assert asked == "commit info commit info"


@pytest.mark.parametrize("status", ["aborted", "invalid"])
async def test_one_that_ended_otherwise_is_refused(status: str) -> None:
    with pytest.raises(tms.TransactionNotInProgress) as ended:
        await finished(LOST, TransactionStatus(status))
    assert ended.value.detail == {"transaction_id": 7, "status": status}


@pytest.mark.parametrize(
    "refusal",
    [tms.TransactionConflict(), tms.SubscriptionMoved(), tms.TransactionNotInProgress()],
)
async def test_a_refusal_is_one_at_once_and_after_a_loss(refusal: tms.TmsError) -> None:
    with pytest.raises(type(refusal)):
        await finished(refusal)
    if not isinstance(refusal, tms.TransactionNotInProgress):
        with pytest.raises(type(refusal)):
            await finished(LOST, TransactionStatus.IN_PROGRESS, refusal)


@pytest.mark.parametrize("undone", [AWAY, tms.StoreUnavailable(reason="full")])
async def test_a_server_that_did_nothing_has_not_committed(undone: tms.TmsError) -> None:
    with pytest.raises(type(undone)):
        await finished(undone, undone, for_s=0.15)
    assert await finished(undone, None) == "commit commit"


@pytest.mark.parametrize(
    "then",
    [
        pytest.param((AWAY, AWAY), id="away"),
        pytest.param((tms.TransactionUnknown(),), id="forgotten"),
        pytest.param((tms.InvalidRequest("not_found"),), id="another server"),
        pytest.param((TransactionStatus.IN_PROGRESS, tms.TransactionUnknown()), id="gone"),
    ],
)
async def test_what_cannot_be_known_is_said_with_its_name(
    then: tuple[TransactionStatus | BaseException, ...],
) -> None:
    with pytest.raises(tms.OutcomeUnknown) as unknown:
        await finished(LOST, *then, for_s=0.15)
    assert unknown.value.detail["transaction_id"] == 7


async def test_one_that_was_cancelled_continues_by_asking() -> None:
    asked = Answers(TransactionStatus.COMMITTED)
    commit = Commit(asked, 7, ())  # type: ignore[arg-type]
    with anyio.CancelScope() as scope:
        scope.cancel()
        await commit.finish(5.0)
    assert asked.asked == []

    await commit.finish(5.0)
    assert asked.asked == ["info"]
