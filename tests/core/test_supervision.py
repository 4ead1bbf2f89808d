"""A supervised task continues after any error, and the failing tasks are reported."""

import asyncio
import logging

import pytest

from tests.virtual_loop import VIRTUAL
from tests.waiting import passes, until
from tms.core.errors import MetadataUnavailable
from tms.core.runtime import supervision
from tms.core.runtime.supervision import failing, supervised

pytestmark = pytest.mark.anyio

FAULTS = [
    AttributeError("'NoneType' object has no attribute 'getpeername'"),
    RuntimeError("unable to perform operation on <TCPTransport closed=True>"),
    TimeoutError(),
    asyncio.CancelledError(),
    MemoryError(),
]


@pytest.fixture
def anyio_backend() -> object:
    return VIRTUAL


class Work:
    """Fails a few times, then works until it is cancelled."""

    def __init__(self, *faults: BaseException) -> None:
        self.faults = list(faults)
        self.calls = 0
        self.is_going_on = asyncio.Event()
        self.may_end = asyncio.Event()

    async def __call__(self) -> None:
        self.calls += 1
        if self.faults:
            raise self.faults.pop()
        self.is_going_on.set()
        await self.may_end.wait()


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
async def test_it_continues_after_whatever_is_raised(fault: BaseException) -> None:
    work = Work(fault, fault)
    task = supervised("a task", work)
    await work.is_going_on.wait()
    assert work.calls == 3
    [told] = [each for each in failing() if each.task == "a task"]
    assert told.times == 2
    assert told.reason.startswith(type(fault).__name__)
    work.may_end.set()
    await task
    assert not failing(), "it has ended"


async def test_it_ends_when_it_is_cancelled() -> None:
    for work in (Work(), Work(*[RuntimeError() for _ in range(10_000)])):
        task = supervised("a task", work)
        await passes(1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
    assert not failing()


async def test_what_is_over_is_not_called_again() -> None:
    work, over = Work(RuntimeError()), asyncio.Event()
    task = supervised("a task", work, until=over)
    await until(lambda: bool(failing()))
    over.set()
    await task
    assert work.calls == 1


async def test_it_is_logged_once_and_then_rarely(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def logged() -> list[logging.LogRecord]:
        return [each for each in caplog.records if each.name == supervision.__name__]

    work = Work(*[RuntimeError("broken") for _ in range(20)])
    task = supervised("a task", work)
    await work.is_going_on.wait()
    [record] = logged()
    assert record.exc_info
    assert record.getMessage() == "a task failed and is restarted: RuntimeError: broken"
    task.cancel()

    work = Work(MetadataUnavailable(reason="away"))
    task = supervised("a third", work)
    await work.is_going_on.wait()
    record = logged()[-1]
    assert record.getMessage().startswith("a third failed and is restarted: MetadataUnava")
    assert not record.exc_info
    task.cancel()

    monkeypatch.setattr(supervision, "TOLD_EVERY_MS", 0)
    work = Work(RuntimeError("again"), RuntimeError("broken"))
    task = supervised("another", work)
    await work.is_going_on.wait()
    assert logged()[-1].getMessage() == "another has failed 2 times: RuntimeError: again"
    task.cancel()


async def test_it_is_well_again_when_it_has_gone_on_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = Work(RuntimeError())
    task = supervised("a task", work)
    await work.is_going_on.wait()
    assert failing()
    monkeypatch.setattr(supervision, "WELL_AFTER_MS", -1)
    assert not failing()
    task.cancel()
