"""The interface of backups of a running server, for operators (docs/backup.md)."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

IN_THE_STORE = "in the store"
"""The place of namespaces, rules and tokens that are in a backup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A complete backup; only its name if its manifest cannot be read."""

    name: str
    created_ms: int | None = None
    """In milliseconds since 1970."""
    bytes: int | None = None
    new_bytes: int | None = None
    """The bytes of files that no earlier backup has."""
    paused_ms: float | None = None
    """For how long publishers had to wait."""
    metadata: str | None = None
    """Where namespaces, rules and tokens were: `IN_THE_STORE`, or a metadata store elsewhere."""
    version: str | None = None
    """The version of TMS that took it."""


class Work(StrEnum):
    """A kind of work on a backup."""

    BACKUP = "backup"
    VERIFY = "verify"


class Stage(StrEnum):
    """The stage of the work."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupWork:
    """Work on a backup, in progress or ended."""

    name: str
    work: Work
    stage: Stage
    seconds: float
    done_bytes: int
    all_bytes: int
    """0 until it is known."""
    rows: int | None = None
    """The rows that verifying has read."""
    failure: str | None = None
    """Why it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupsState:
    """The backups of a server."""

    folder: str
    """The folder, or the URL without credentials."""
    backups: Sequence[Backup]
    """The oldest first."""
    last: BackupWork | None = None
    """The work in progress, or the last one since the server started."""


class Backups(Protocol):
    """The backups of one server, in its event loop. One work at a time."""

    async def state(self) -> BackupsState:
        """Return the backups. Raises `BackupRefused` (backup_off), `BackupsUnreachable`."""
        ...

    async def start(self, work: Work, name: str, wait_s: float) -> BackupWork:
        """Begin to take or verify a backup; wait for its end, at most `wait_s` seconds.

        Raises `BackupRefused`, `BackupNotFound`, `BackupsUnreachable`, `InvalidRequest`
        (invalid_backup_name).
        """
        ...

    async def delete(self, name: str) -> None:
        """Delete a backup. Raises as `start`."""
        ...
