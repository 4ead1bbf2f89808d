"""To the process that started its command, a forked program looks like any other process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.server_process import environment, programs_of_tests
from tests.waiting import WAIT_S_MAX, wait_until

ECHO = "import os, sys; print(sys.stdin.read(), os.getcwd(), sys.argv[1:]); sys.exit('no')"
WAITS = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"


def start(code: str) -> subprocess.Popen[str]:
    command = programs_of_tests().command(code)
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    )


def test_it_has_the_streams_folder_and_arguments_of_its_command(tmp_path: Path) -> None:
    executable = tmp_path / "echo"
    programs_of_tests().make(executable, ECHO)

    done = subprocess.run(
        [executable, "a", "b"],
        cwd=tmp_path,
        input="text",
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=False,
    )

    assert (done.returncode, done.stderr) == (1, "no\n")
    assert done.stdout == f"text {tmp_path} ['a', 'b']\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_ends_the_command_ends_the_program(number: signal.Signals) -> None:
    with start(WAITS) as command:
        assert command.stdout is not None
        program = int(command.stdout.readline())
        assert program != command.pid
        command.send_signal(number)
        assert command.wait(WAIT_S_MAX) == -number
        wait_until(lambda: not Path(f"/proc/{program}").exists())


def test_a_program_that_is_killed_ends_its_command_likewise() -> None:
    with start(WAITS) as command:
        assert command.stdout is not None
        os.kill(int(command.stdout.readline()), signal.SIGKILL)
        assert command.wait(WAIT_S_MAX) == -signal.SIGKILL


def test_a_command_that_is_killed_as_it_asks_leaves_no_program() -> None:
    *_, text = programs_of_tests().command(WAITS)
    asks, killed = text.split("    program =")[0], "    os.kill(os.getpid(), signal.SIGKILL)\n"
    for _ in range(20):  # mostly before its program has started
        started = subprocess.run(
            [sys.executable, "-SEIc", asks + killed],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            timeout=WAIT_S_MAX,
            check=False,
        )
        assert started.returncode == -signal.SIGKILL
