"""Tests that lack a program or a right are skipped with its name, unless all have to run.

CI sets SKIP_NO_TEST: there, a test that did not run has failed.

`scripts/test` runs the gate, `scripts/test --all` everything (tests/README.md).
"""

import gc
import inspect
import os
import random
import signal
from collections.abc import Generator, Iterator
from functools import partial
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, strategies
from hypothesis import settings as hypothesis_settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from tests import scale
from tests.scheduling import InTurn
from tests.servers import orphans
from tests.servers.shared_servers import end_unused, etcd, hbase, zookeeper
from tests.taskless_guard import taskless_guard
from tests.waiting import WAIT_S_MAX

__all__ = ["etcd", "hbase", "zookeeper"]

# So that an assert of a contract says what it compared, as those of test files do.
pytest.register_assert_rewrite("tests.contracts")

SKIP_NONE = bool(os.environ.get("SKIP_NO_TEST"))

# Programs that a shell starts in the background ignore interrupts, and so do their children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# All clients of httpx share this default, which is 5 s.
_timeout: httpx.Timeout = inspect.signature(httpx.Client).parameters["timeout"].default
_timeout.connect = _timeout.read = _timeout.write = _timeout.pool = WAIT_S_MAX


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tms", "how much is tested")
    group.addoption(
        "--all",
        action="store_true",
        dest="all_tests",
        help="run slow tests too, and every test with all its rounds, from a new seed",
    )
    group.addoption(
        "--scale",
        type=float,
        help=f"the part of the rounds and examples to run: 1 with --all, {scale.GATE:g} without",
    )
    group.addoption("--seed", type=int, help="the seed that an earlier run printed")


@pytest.hookimpl(tryfirst=True)  # before hypothesis reads its seed
def pytest_configure(config: pytest.Config) -> None:
    option = config.option
    if option.scale is None:
        option.scale = 1.0 if option.all_tests else scale.GATE
    if option.seed is None:
        option.seed = random.randrange(2**32) if option.all_tests else scale.GATE_SEED
    scale.choose(option.scale, option.seed)
    assert hasattr(option, "hypothesis_seed"), "Hypothesis takes its seed elsewhere"
    option.hypothesis_seed = str(option.seed)
    if not option.all_tests:
        # Hypothesis would also draw constants of the imported modules, which depend on the other
        # tests.
        providers._get_local_constants = Constants
    hypothesis_settings.register_profile(
        "tms",
        database=None,
        deadline=None,
        derandomize=False,  # Hypothesis would ignore the seed on machines that set CI
        max_examples=scale.scaled(100),
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    hypothesis_settings.load_profile("tms")
    # For arguments that `builds` does not get: few of our numbers may have any size, and a draw
    # beyond their bounds is rare. It draws the defaults of a named tuple, too.
    for kind in (int, float):
        strategies.register_type_strategy(kind, strategies.none().map(partial(_refuse, kind)))
    runs_tests = hasattr(config, "workerinput") or not option.numprocesses
    if runs_tests and not option.collectonly:
        orphans.keep()


def _refuse(kind: type, _: None) -> None:
    message = f"an argument of type {kind.__name__} needs a strategy with its bounds"
    raise TypeError(message)


def pytest_report_header(config: pytest.Config) -> str:
    option = config.option
    part = "all tests" if option.all_tests else "the gate: slow tests need --all"
    return f"{part}; {option.scale:g} of the rounds; {_repeated_by(config)}"


def _repeated_by(config: pytest.Config) -> str:
    option = config.option
    more = " --all" if option.all_tests else ""
    return f"repeat a test: scripts/test{more} --scale {option.scale:g} --seed {option.seed} TEST"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        terminalreporter.write_line(_repeated_by(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave slow tests out of the gate, except those named individually."""
    if config.option.all_tests:
        return
    named = tuple(each for each in config.args if "::" in each)

    def is_left_out(item: pytest.Item) -> bool:
        return item.get_closest_marker("slow") is not None and not item.nodeid.startswith(named)

    config.hook.pytest_deselected(items=[item for item in items if is_left_out(item)])
    items[:] = [item for item in items if not is_left_out(item)]


@pytest.hookimpl(trylast=True)  # after the fixtures of the test itself
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    end_unused(item, nextitem)


@pytest.fixture(scope="session")
def anyio_backend() -> Any:
    """The event loop of asynchronous tests; folders and files may override it."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _same_chance(request: pytest.FixtureRequest) -> None:
    """Seed the global generator, so that a run with the same seed draws the same."""
    random.seed(f"{scale.seed()} {request.node.nodeid}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if SKIP_NONE and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"All tests have to run here, and this did not: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude the tests themselves from later collections: they are a million objects."""
    gc.disable()  # it would traverse them dozens of times, and find next to nothing
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    """Make anything that a file's tests left open fail that file, instead of a much later one."""
    yield
    gc.collect()
    # Objects that stay (caches, modules) need not be searched again, nor those that a server in
    # this process has thawed.
    gc.freeze()


@pytest.fixture(scope="session")
def asked_for_task() -> Iterator[list[str]]:
    """Yield the places where requests asked for their task before they had one."""
    with taskless_guard() as asked:
        yield asked


@pytest.fixture(autouse=True)
def _asks_for_no_task_too_early(asked_for_task: list[str]) -> Iterator[None]:
    """Fail a test in which a request asked for its task before it had one."""
    yield
    asked, asked_for_task[:] = [*asked_for_task], []
    assert not asked, asked[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> InTurn:
    return InTurn(config, log)
