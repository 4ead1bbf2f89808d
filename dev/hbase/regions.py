"""Splits, merges and moves regions of servers that were started here, as HBase itself does."""

import subprocess
from pathlib import Path

from dev.hbase.configuration import JAVA_FLAGS
from dev.hbase.servers import Servers, class_path

_PROGRAM = Path(__file__).with_name("Regions.java")
_S_MAX = 120


def change(servers: Servers, verb: str, table: bytes, row: bytes) -> None:
    """Split the region at `row`, merge it with the next one, or move it to another server.

    `verb` is split, merge or move. Returns when it is done; takes some seconds, for it starts a
    JVM. Raises `subprocess.CalledProcessError`, with what Java said.
    """
    conf = Path(servers.folder, "conf", "gateway")
    subprocess.run(
        [
            *("java", *JAVA_FLAGS, "-cp", f"{conf}:{class_path()}", str(_PROGRAM)),
            *(verb, table.decode(), row.hex()),
        ],
        capture_output=True,
        timeout=_S_MAX,
        check=True,
    )
