"""A private PostgreSQL server, in a new folder with its socket, and not run by root."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from tests.waiting import WAIT_S_MAX, wait_until

USER = "postgres"


def find_programs() -> Path | None:
    """Return the folder of the newest PostgreSQL's programs; None if it is not installed."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version)
    if folders:
        return folders[-1].parent
    found = shutil.which("initdb")
    return None if found is None else Path(found).parent


def _version(program: Path) -> float:
    return float(program.parts[-3])


class PostgresqlServer:
    """A server that takes part in two-phase commits."""

    def __init__(self, programs: Path, *, prepared_max: int = 10) -> None:
        """Make it and wait until it answers."""
        self._folder = Path(tempfile.mkdtemp(prefix="tms-postgresql-"))
        self._as_user: dict[str, Any] = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to be run by root
            user = pwd.getpwnam(USER)
            os.chown(self._folder, user.pw_uid, user.pw_gid)
            self._as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        data = self._folder / "data"
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "-N"],
            check=True,
            capture_output=True,
            cwd=self._folder,
            **self._as_user,
        )
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": self._folder,
            "max_prepared_transactions": prepared_max,
        }
        options = [
            option for name, value in settings.items() for option in ("-c", f"{name}={value}")
        ]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [programs / "postgres", "-D", data, *options],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                **self._as_user,
            )
        self.url = f"host={self._folder} user={USER} dbname=postgres"
        try:
            self._wait()
        except BaseException:
            self._end()
            raise

    def _wait(self) -> None:
        def answers() -> bool:
            try:
                psycopg.connect(self.url).close()
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self._folder / "log").read_text()
                return False
            return True

        wait_until(answers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._process.send_signal(signal.SIGINT)  # without waiting for connections
        self._process.wait(WAIT_S_MAX)
        shutil.rmtree(self._folder)
