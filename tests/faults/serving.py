"""Servers on a folder of LevelDB that take any write pointer, as the clients here make them."""

from pathlib import Path

from tests.servers.server_process import ServerProcess


def serve(folder: Path, *flags: str, port: int = 0) -> ServerProcess:
    """Start one, and do not wait."""
    return ServerProcess(f"leveldb:{folder}", "--transactions", "foreign", *flags, port=port)


def refusal(folder: Path, *flags: str) -> tuple[int, str]:
    """Start one that must not start; return its exit code and its log."""
    with serve(folder, *flags) as server:
        return server.wait(), server.log
