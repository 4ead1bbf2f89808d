"""Answers questions about schemas away from the event loop, which goes on meanwhile.

A server has worker processes for that, each answer within a time: one that takes too long is
killed, and another is started when it is needed; so is one that died. That says nothing of the
schemas, so it is `SchemasUnavailable`: a client may ask again, and what was parsed until then is
kept for that. Whoever waits for so long before others is refused too, so that no more is at work
than is waited for. A program that has a store of its own has a thread: its schemas are its own, and
a process would run its main module anew.
"""

import asyncio
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from typing import Protocol

from anyio import BrokenWorkerProcess, CapacityLimiter, fail_after, to_process

from tms.core.errors import SchemasUnavailable
from tms.core.runtime import extras
from tms.core.values.caller import ASKING
from tms.registry.checking.turns import Turns
from tms.registry.questions.questions import Answer, Question

PROCESSES = 3
"""The number of processes. One caller has at most two, so its hostile schemas do not delay others.
They are started when they are needed."""
_EXTRA = "registry"


class Checker(Protocol):
    """Answers questions. Used on the event loop's thread alone."""

    killed: int
    """Processes whose answer took too long, or that died."""

    async def answers(self, questions: Sequence[Question]) -> list[Answer]:
        """Return the answers, in the order of the questions.

        Raises `SchemasUnavailable` if they are not found out in time, or `ModuleNotFoundError` if
        the extra is not installed.
        """
        ...


def _answers_in_worker(questions: Sequence[Question], folder: str | None) -> list[Answer]:
    from tms.registry.checking.kinds import answers_in_worker  # noqa: PLC0415  the libraries, there alone

    return answers_in_worker(questions, folder)


def _answers_here(questions: Sequence[Question]) -> list[Answer]:
    try:
        from tms.registry.checking.kinds import answers_to  # noqa: PLC0415  an extra
    except ModuleNotFoundError as error:
        raise extras.missing("Checking schemas needs more", error, _EXTRA) from None
    return answers_to(questions)


_DIED = (BrokenWorkerProcess, OSError)
"""Raised if a process ends while it is asked, or cannot be started."""


class ProcessChecker:
    """Worker processes."""

    def __init__(self, seconds_max: float, processes: int = PROCESSES) -> None:
        """Give each set of questions `seconds_max`, and as long until it is its turn."""
        self._seconds_max = seconds_max
        self._turns = Turns(processes)
        self._calls = CapacityLimiter(processes)
        self._folder: str | None = None
        self.killed = 0

    async def answers(self, questions: Sequence[Question]) -> list[Answer]:
        """Return the answers, in the order of the questions.

        Raises `SchemasUnavailable` if none has begun to answer within the time that one may take,
        or has not ended within that.
        """
        async with AsyncExitStack() as turn:
            try:
                with fail_after(self._seconds_max):
                    await turn.enter_async_context(self._turns.turn(ASKING.get().sharer))
            except TimeoutError:
                reason = "earlier checks, of this caller or of others, take too long"
                raise SchemasUnavailable(reason=reason) from None
            return await self._answered(questions)

    async def _answered(self, questions: Sequence[Question]) -> list[Answer]:
        try:
            with fail_after(self._seconds_max):
                try:
                    return await self._asked(questions)
                except _DIED:
                    return await self._asked(questions)  # perhaps it was not the schema
        except TimeoutError:
            reason = f"checking the schema took more than {self._seconds_max:g} s"
        except _DIED:
            reason = "the process that checks schemas died twice"
        self.killed += 1
        raise SchemasUnavailable(reason=reason)

    async def _asked(self, questions: Sequence[Question]) -> list[Answer]:
        if self._folder is None:
            with suppress(OSError):
                self._folder = tempfile.mkdtemp(prefix="tms-schemas-")
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return await to_process.run_sync(
            _answers_in_worker, questions, self._folder, cancellable=True, limiter=self._calls
        )


class ThreadChecker:
    """A thread."""

    def __init__(self) -> None:
        self.killed = 0

    async def answers(self, questions: Sequence[Question]) -> list[Answer]:
        """Return the answers, in the order of the questions."""
        assert asyncio.current_task() is not None, "a process has a timeout, which needs a task"
        return await asyncio.to_thread(_answers_here, questions)
