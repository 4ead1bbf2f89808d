"""A process that a test waits for, and never for ever."""

import subprocess
from threading import Timer
from types import TracebackType
from typing import AnyStr, Self

from tests.waiting import WAIT_S_MAX


class BoundedProcess(subprocess.Popen[AnyStr]):
    """A process that is killed if its test fails, and at the latest after `WAIT_S_MAX`.

    Otherwise a test that fails, or reads what never comes, would wait for ever for its end.
    """

    def __enter__(self) -> Self:
        self._ceiling = Timer(WAIT_S_MAX, self.kill)
        self._ceiling.daemon = True
        self._ceiling.start()
        return super().__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self.kill()
        super().__exit__(kind, error, traceback)
        self._ceiling.cancel()
