"""The commands, run in this process against a real server."""

import functools
import itertools
from collections.abc import Callable, Iterator

import pytest
from typer import testing

from tests.servers.server_process import ServerProcess
from tms.cli.main import app

_numbers = itertools.count()

# Building the commands takes 50 ms, which is nearly all of the time of most of them.
testing._get_command = functools.cache(testing._get_command)  # type: ignore[attr-defined]

Outcome = tuple[int, str, str]
Run = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMS_URL", "TMS_NAMESPACE", "TMS_CONFIG", "TMS_TOKEN", "TMS_TOKEN_FILE", "TMS_CA"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("memory:") as server:
        yield server
        assert server.stop() == 0


def run_command(*arguments: str, given: bytes | None = None) -> Outcome:
    """Return the exit code, standard output and standard error of `tms ARGUMENTS`."""
    result = testing.CliRunner().invoke(app, arguments, input=given, prog_name="tms")
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def run(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command on the server, in a namespace of the test's own."""
    monkeypatch.setenv("TMS_URL", server.url)
    monkeypatch.setenv("TMS_NAMESPACE", f"c{next(_numbers)}")
    return run_command
