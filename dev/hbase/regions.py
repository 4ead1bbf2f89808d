"""Splits, merges and moves regions of servers that were started here, and snapshots tables."""

import subprocess
from pathlib import Path

from dev.hbase.configuration import JAVA_FLAGS
from dev.jars import class_path
from dev.processes import Servers

_PROGRAM = Path(__file__).with_name("Regions.java")
_S_MAX = 120
_CHARACTERS = 3_000


class CannotChange(Exception):
    """Raised if HBase did not do it; its text is Java's output."""


def change(servers: Servers, verb: str, table: bytes, row: bytes) -> None:
    """Split the region at `row`, merge it with the next one, or move it to another server.

    `verb` is split, merge or move; or snapshot or restore of all tables whose names begin with
    `table`, with `row` as the name of the cut. Returns when it is done; takes some seconds, because
    it starts a JVM. Raises `CannotChange`, also if a region that was split is merged soon after.
    """
    conf = Path(servers.folder, "conf", "gateway")
    done = subprocess.run(
        [
            *("java", *JAVA_FLAGS, "-cp", f"{conf}:{class_path()}", str(_PROGRAM)),
            *(verb, table.decode(), row.hex()),
        ],
        capture_output=True,
        text=True,
        timeout=_S_MAX,
        check=False,
    )
    if done.returncode:
        raise CannotChange(done.stderr[-_CHARACTERS:])
