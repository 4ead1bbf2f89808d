"""Answers questions about schemas outside the event loop, which continues in the meantime.

A server uses worker processes with a time limit: a process that exceeds it is killed, and, like one
that died, replaced when needed. That says nothing about the schemas, so it is `SchemasUnavailable`:
a client may retry, and schemas parsed so far are still cached. A caller that waits this long for
its turn is refused as well, so no work runs without a caller. A program with a store of its own
uses a thread: its schemas are its own, and a process would run its main module again.
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
"""The number of processes. One caller uses at most two, so its hostile schemas do not delay others.
They are started when they are needed.
"""
_EXTRA = "registry"


class Checker(Protocol):
    """Answers questions. Used only on the event loop's thread."""

    killed: int
    """Processes that took too long or died."""

    async def answers(self, questions: Sequence[Question]) -> list[Answer]:
        """Return the answers, in the order of the questions.

        Raises `SchemasUnavailable` if there are none in time, or `ModuleNotFoundError` if the extra
        is not installed.
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
"""Raised if a process cannot be started, or ends during a request."""


class ProcessChecker:
    """Worker processes."""

    def __init__(self, seconds_max: float, processes: int = PROCESSES) -> None:
        """Limit each set of questions to `seconds_max`, and its wait for a turn to the same."""
        self._seconds_max = seconds_max
        self._turns = Turns(processes)
        self._calls = CapacityLimiter(processes)
        self._folder: str | None = None
        self.killed = 0

    async def answers(self, questions: Sequence[Question]) -> list[Answer]:
        """Return the answers, in the order of the questions.

        Raises `SchemasUnavailable` if a process has not started on them, or then not finished,
        within the limit.
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
                    return await self._asked(questions)  # Perhaps the schema was not the cause.
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
