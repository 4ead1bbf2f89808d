"""Tests that lack a program or a right are skipped with its name, except where all have to run.

CI sets TMS_SKIP_NO_TEST: there a test that did not run is one that failed.
"""

import os
from collections.abc import Generator

import pytest

SKIP_NONE = bool(os.environ.get("TMS_SKIP_NO_TEST"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if SKIP_NONE and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"All tests have to run here, and this did not: {report.longrepr}"
    return report
