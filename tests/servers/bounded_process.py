"""A process that a test never waits for without a limit."""

import subprocess
from threading import Timer
from types import TracebackType
from typing import AnyStr, Self

from tests.waiting import WAIT_S_MAX


class BoundedProcess(subprocess.Popen[AnyStr]):
    """A process that is killed if its test fails, and after `WAIT_S_MAX` at the latest.

    Otherwise a test that fails, or that reads output which never arrives, would wait for its end
    for ever.
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
