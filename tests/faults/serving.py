"""Servers on a LevelDB folder that accept any write pointer, since clients here make them up."""

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
    """Start a server that must refuse to start; return its exit code and log."""
    with serve(folder, *flags) as server:
        return server.wait(), server.log
