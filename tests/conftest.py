"""Tests that lack a program or a right are skipped with its name, except where all have to run.

CI sets SKIP_NO_TEST: there a test that did not run is one that failed.

In several processes, a file's tests run in the same one; so do those of a folder that shares
what takes long to start or to read.
"""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.taskless_guard import taskless_guard

SKIP_NONE = bool(os.environ.get("SKIP_NO_TEST"))

# What a shell starts in the background ignores interrupts, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if SKIP_NONE and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"All tests have to run here, and this did not: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Have the collector pass over the tests themselves: a million objects, at each file's end."""
    gc.disable()  # it would look through them dozens of times, and find next to nothing
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    """Have what a file's tests left open fail that file, and not whichever comes much later."""
    yield
    gc.collect()
    if not gc.get_freeze_count():  # a test had to thaw all, and each file after it would pay
        gc.freeze()


@pytest.fixture(scope="session")
def asked_for_task() -> Iterator[list[str]]:
    """Where requests ask for their task before they have one."""
    with taskless_guard() as asked:
        yield asked


@pytest.fixture(autouse=True)
def _asks_for_no_task_too_early(asked_for_task: list[str]) -> Iterator[None]:
    """Have a test fail in which a request asked for its task before it had one."""
    yield
    asked, asked_for_task[:] = [*asked_for_task], []
    assert not asked, asked[0]


TOGETHER = ("tests/structure/", "tests/tables/hbase/", "tests/faults/hbase/", "tests/spark/")


class ByFolders(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Gives a process the tests that share something, in the order they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((folder for folder in TOGETHER if file.startswith(folder)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFolders:
    config.option.loadscopereorder = False
    return ByFolders(config, log)
