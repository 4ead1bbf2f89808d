"""A newcomer's machine: a folder to work in, a server, and the commands that the pages use."""

import os
import re
import shlex
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.docs.markdown import ROOT, Block
from tests.servers.server_process import MAIN, ServerProcess, programs_of_tests
from tests.waiting import WAIT_S_MAX

ADDRESS = "127.0.0.1:11015"
"""The server's address in the pages; tests replace it by one with a free port."""
_PROGRAM = "import sys; exec(compile(sys.argv.pop(1), 'a program', 'exec'))"


class Newcomer:
    """Carries out blocks of a page, one after another, in an empty folder."""

    def __init__(self, folder: Path) -> None:
        """Start with no server."""
        self.folder = folder
        self._server: ServerProcess | None = None
        self._is_killed = False
        self._servers = ExitStack()
        commands = folder / ".venv/bin"
        commands.mkdir(parents=True)
        programs = programs_of_tests()
        programs.make(commands / "tms", MAIN)
        self._program = commands / "program"
        programs.make(self._program, _PROGRAM)
        (commands / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        (commands / "python").chmod(0o755)
        (folder / "examples").symlink_to(ROOT / "examples")
        self._path = f"{commands}:{os.environ['PATH']}"

    @property
    def url(self) -> str:
        """Where the server serves."""
        assert self._server is not None, "the page starts no server before this"
        return self._server.url

    @property
    def is_served(self) -> bool:
        """Whether a server was started and has not been killed since."""
        return self._server is not None and not self._is_killed

    def serve(self, *flags: str) -> None:
        """Start a server as scripts/run does once it has set up .venv."""
        if self._server is not None:
            assert self._is_killed, "the page has not ended the server before"
            self._server.wait()
        self._is_killed = False
        self._server = self._servers.enter_context(
            ServerProcess(f"leveldb:{self.folder / 'tms-data'}", *flags)
        )
        assert self._server.url

    def run(self, *command: str) -> str:
        """Return the output of a command, which must succeed."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TMS_")}
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**clean, "PATH": self._path, "PYTHONPATH": str(ROOT), "TMS_URL": self.url},
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT_S_MAX,
        )
        assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stderr}"
        return done.stdout

    def carry_out(self, block: Block) -> str:
        """Run a block of a page, and return what it prints."""
        if block.kind == "sh" and block.text.strip() == "scripts/run":
            self.serve()
            return ""
        if block.kind == "sh" and block.text.startswith("tms serve"):
            self.serve(*shlex.split(block.text.replace("./", f"{self.folder}/"))[2:])
            return ""
        text = block.text.replace(ADDRESS, self.url.removeprefix("http://"))
        if block.kind == "python":
            return self.run(str(self._program), text)
        assert block.kind == "sh", f"{block.place}: nobody knows how to run {block.kind}"
        self._is_killed = self._is_killed or "kill -9" in text
        quiet = 'curl() { command curl --silent --show-error --fail-with-body "$@"; }'
        return self.run("bash", "-euo", "pipefail", "-c", f"{quiet}\n{text}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._servers.__exit__(kind, error, traceback)


def is_as_told(told: str, printed: str) -> bool:
    """Whether `printed` is the output shown on a page, in which `…` is any text within a line."""
    pattern = ".*".join(re.escape(part) for part in told.strip().split("…"))
    return re.fullmatch(pattern, printed.strip()) is not None
