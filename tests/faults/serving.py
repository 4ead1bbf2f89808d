"""Servers on a folder of LevelDB that take any write pointer, as the clients here make them."""

from collections.abc import Mapping
from pathlib import Path

from tests.servers.server_process import ServerProcess


def serve(
    folder: Path, *flags: str, port: int = 0, limits: Mapping[str, int] | None = None
) -> ServerProcess:
    """Start one, and do not wait."""
    flags = ("--transactions", "foreign", *flags)
    return ServerProcess(f"leveldb:{folder}", *flags, port=port, limits=limits)


def refusal(folder: Path, *flags: str) -> tuple[int, str]:
    """Start one that must not start; return its exit code and its log."""
    with serve(folder, *flags) as server:
        return server.wait(), server.log
