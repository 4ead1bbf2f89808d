"""Answers questions about schemas in worker processes, each within a time.

A process whose answer takes too long is killed, and another one is started when it is needed; so
is one that died. The event loop goes on meanwhile.
"""

from collections.abc import Sequence

from anyio import BrokenWorkerProcess, CapacityLimiter, fail_after, to_process

from tms.registry.questions import Answer, Invalid, Question

PROCESSES = 2
"""So that one hostile schema does not hold up the others."""


def _answers_to(questions: Sequence[Question]) -> list[Answer]:
    from tms.registry.kinds import answers_to  # noqa: PLC0415  loads the libraries, in the worker

    return answers_to(questions)


class Checker:
    """Worker processes. Used on the event loop's thread alone."""

    def __init__(self, seconds_max: float, processes: int = PROCESSES) -> None:
        """Give each set of questions `seconds_max`."""
        self._seconds_max = seconds_max
        self._turns = CapacityLimiter(processes)
        self._calls = CapacityLimiter(processes)
        self.killed = 0
        """Processes whose answer took too long, or that died."""

    async def answers(self, questions: Sequence[Question]) -> list[Answer]:
        """Return the answers, in the order of the questions."""
        async with self._turns:
            try:
                with fail_after(self._seconds_max):
                    return await to_process.run_sync(
                        _answers_to, questions, cancellable=True, limiter=self._calls
                    )
            except TimeoutError:
                reason = f"checking the schema took more than {self._seconds_max:g} s"
            except BrokenWorkerProcess:
                reason = "checking the schema ended the process that checks"
        self.killed += 1
        return [Invalid(reason)] * len(questions)
