"""A server's backups of its store, in its event loop: one work at a time, in a thread.

Implements `tms.core.values.backups.Backups`. Before a backup the store's mark is written, so that a
restored server continues from the time of the backup.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Never

from prometheus_client import CollectorRegistry, Gauge

from tms import __version__
from tms.core.errors import BackupNotFound, BackupRefused, InvalidRequest, Stopping, TmsError
from tms.core.limits import MS_PER_S
from tms.core.runtime.clock import Clock
from tms.core.runtime.extras import missing
from tms.core.runtime.shared_work import shared
from tms.core.text.credentials import without_credentials
from tms.core.text.store_url import folder_of
from tms.core.values.backups import IN_THE_STORE, BackupsState, BackupWork, Stage, Work
from tms.server.node import OpenServices
from tms.server.stores import importing
from tms.settings import Settings

with importing("tables"):
    from tables.backups import NAME, BackupFolder, BackupPlace
    from tables.leveldb import LevelDBStore

_log = logging.getLogger(__name__)
_LOOK_S_MAX = 5.0
"""How long a start waits for the list of backups: a server starts without it, too."""


class NoBackups:
    """A server that takes no backups: it refuses each call."""

    def __init__(self, code: str = "backup_unsupported") -> None:
        """Refuse with this code of `BackupRefused`."""
        self._code = code

    async def state(self) -> BackupsState:
        """Raise `BackupRefused`."""
        self._refuse()

    async def start(self, work: Work, name: str, wait_s: float) -> BackupWork:  # noqa: ARG002
        """Raise `BackupRefused`."""
        self._refuse()

    async def delete(self, name: str) -> None:  # noqa: ARG002
        """Raise `BackupRefused`."""
        self._refuse()

    def _refuse(self) -> Never:
        raise BackupRefused(self._code)

    async def close(self) -> None:
        """Do nothing."""


class StoreBackups:
    """The backups of a store in a folder."""

    def __init__(
        self,
        place: BackupPlace,
        services: OpenServices,
        store: LevelDBStore,
        *,
        metadata: str,
        clock: Clock,
        created: Gauge,
    ) -> None:
        """Keep them in `place`; `metadata` says where namespaces, rules and tokens are."""
        self._place = place
        self._services = services
        self._store = store
        self._metadata = metadata
        self._clock = clock
        self._created = created
        self._task: asyncio.Task[None] | None = None
        self._last: BackupWork | None = None
        self._is_closed = False

    async def state(self) -> BackupsState:
        """Return the backups."""
        backups = await asyncio.to_thread(self._place.backups)
        return BackupsState(folder=self._place.shown, backups=backups, last=self._last)

    async def start(self, work: Work, name: str, wait_s: float) -> BackupWork:
        """Begin to take or verify a backup; wait for its end, at most `wait_s` seconds."""
        exists = await self._exists(name)
        self._check_idle()
        if work is Work.BACKUP and exists:
            raise BackupRefused("backup_exists", backup=name)
        if work is Work.VERIFY and not exists:
            raise BackupNotFound(backup=name)
        began = BackupWork(
            name=name, work=work, stage=Stage.RUNNING, seconds=0.0, done_bytes=0, all_bytes=0
        )
        self._last = began
        self._task = asyncio.create_task(self._run(began), name=f"backups-{work}")
        await asyncio.wait([self._task], timeout=wait_s)
        return self._last

    async def delete(self, name: str) -> None:
        """Delete a backup."""
        exists = await self._exists(name)
        self._check_idle()
        if not exists:
            raise BackupNotFound(backup=name)
        self._task = asyncio.create_task(asyncio.to_thread(self._place.delete, name))
        await shared(self._task)

    async def _exists(self, name: str) -> bool:
        if not NAME.fullmatch(name):
            raise InvalidRequest("invalid_backup_name", backup=name)
        return name in await asyncio.to_thread(self._place.names)

    def _check_idle(self) -> None:
        if self._task is not None and not self._task.done():
            raise BackupRefused(
                "backup_running", backup="" if self._last is None else self._last.name
            )
        if self._is_closed:
            raise Stopping

    async def _run(self, began: BackupWork) -> None:
        """Do the work, and record its end."""
        started = monotonic()

        def progress(done: int, total: int) -> None:
            if self._is_closed:
                raise Stopping
            seconds = monotonic() - started
            self._last = replace(began, seconds=seconds, done_bytes=done, all_bytes=total)

        ended: dict[str, Any] = {"stage": Stage.DONE}
        try:
            if began.work is Work.BACKUP:
                await self._take(began.name, progress)
            else:
                verify = partial(self._place.verify, began.name, progress)
                ended["rows"] = await asyncio.to_thread(verify)
        except (TmsError, OSError) as error:
            _log.error("the %s of %s failed: %s", began.work, began.name, error)
            ended = {"stage": Stage.FAILED, "failure": without_credentials(str(error))}
        last = self._last or began
        self._last = replace(last, seconds=round(monotonic() - started, 3), **ended)

    async def _take(self, name: str, progress: Callable[[int, int], None]) -> None:
        engine, now_ms = self._services.engine, self._clock.now_ms()
        if engine.mark is not None:
            await engine.mark.store(engine.writer)
        facts = {"created_ms": now_ms, "tms": __version__, "metadata": self._metadata}
        await asyncio.to_thread(self._place.take, name, self._store, facts, progress)
        self._created.set(now_ms / MS_PER_S)

    async def close(self) -> None:
        """End the work in progress; an unfinished backup is deleted."""
        self._is_closed = True
        if self._task is not None:
            with suppress(OSError):
                await self._task


async def open_backups(
    settings: Settings, services: object, registry: CollectorRegistry, clock: Clock
) -> StoreBackups | NoBackups:
    """Return the backups of a server on `services`; close them before these."""
    folder = folder_of(settings.store)
    if folder is None or not isinstance(services, OpenServices) or services.upkeep is None:
        return NoBackups()
    if not settings.backup_folder:
        return NoBackups("backup_off")
    store = services.upkeep.store
    assert isinstance(store, LevelDBStore)
    place = _place_of(settings.backup_folder, folder)
    elsewhere = settings.metadata and folder_of(settings.metadata) != folder
    metadata = without_credentials(settings.metadata) if elsewhere else IN_THE_STORE
    created = Gauge(
        "tms_backup_created_seconds",
        "When the last backup was taken, in seconds since 1970; 0 if there is none.",
        registry=registry,
    )
    try:
        async with asyncio.timeout(_LOOK_S_MAX):
            listed = await asyncio.to_thread(place.backups)
        created.set(max((each.created_ms or 0 for each in listed), default=0) / MS_PER_S)
    except (TmsError, TimeoutError) as error:
        _log.warning("cannot list the backups: %s", error or "there is no answer")
    return StoreBackups(place, services, store, metadata=metadata, clock=clock, created=created)


def _place_of(destination: str, store: Path) -> BackupPlace:
    """Return the place of backups that the setting names, a folder or a URL."""
    if "://" not in destination:
        return BackupFolder(Path(destination))
    try:
        from tables.remote_backups import RemoteBackups  # noqa: PLC0415  an extra
    except ModuleNotFoundError as error:
        raise missing("Backups at a URL need fsspec", error, "backup") from None
    return RemoteBackups(destination, store / "staged")
