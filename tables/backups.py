"""Backups of a store in a folder: takes, lists, verifies and deletes them.

    BACKUPS/NAME/backup.json    the manifest (docs/formats.md); it has the digest of every file
    BACKUPS/NAME/format.json    the store's
    BACKUPS/NAME/leveldb/       a cut of LevelDB's files

1. A backup is complete, durable, and was opened once before it gets its name. An interrupted one
   has a name with a dot, and is deleted when the next one begins.
2. The first backup copies all tables, later ones only new tables: the others are hard links, to the
   store's files on the same file system, and to the last backup's on another one. So a backup on
   the store's own disk costs no room at first, but damage to a shared file damages every backup.
3. Verifying compares each file with its digest, opens the backup, and reads all its rows. It never
   changes the backup: LevelDB opens another folder with links to its tables.
"""

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from tables.leveldb import LevelDBStore
from tables.leveldb_cut import sync
from tables.store import ALL_TABLES, COORDINATION
from tables.store_tables import StoreTables
from tms.core.errors import StoreCorrupt, StoreFileLost
from tms.core.services.mark import latest_mark
from tms.core.values.backups import Backup
from tms.core.values.store_access import StoreAccess

VERSION = 1
MANIFEST = "backup.json"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
FORMAT, LEVELDB = "format.json", "leveldb"
_TABLES = (".ldb", ".sst")
_MODE = 0o700
_PIECE_BYTES = 4 * 1024 * 1024
_OPEN_FILES_MAX = 74
"""The fewest that LevelDB accepts. Each file is read once, and counts as memory while mapped."""
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)
_LAST_KEY = b"\xff" * 256

Progress = Callable[[int, int], None]
"""Takes the bytes that are done and all; it may raise, which ends the work."""
Json = dict[str, Any]


class BackupPlace(Protocol):
    """Where a server's backups are. All calls block; one process uses it, one call at a time."""

    shown: str
    """The place, without credentials."""

    def names(self) -> list[str]:
        """Return the names of the backups. Raises `BackupsUnreachable`."""
        ...

    def backups(self) -> list[Backup]:
        """Return the backups, the oldest first; those with an unreadable manifest come last."""
        ...

    def take(self, name: str, store: LevelDBStore, facts: Json, progress: Progress) -> Json:
        """Take a backup of an open store, and return its manifest.

        `facts` are added to the manifest. Raises `FileExistsError`, `OSError`, `StoreUnavailable`,
        `BackupsUnreachable`, and what `progress` raises.
        """
        ...

    def verify(self, name: str, progress: Progress) -> int:
        """Verify a backup, and return its number of rows.

        Raises `StoreCorrupt`, of which `StoreFileLost` names a file; `FileNotFoundError`
        without a backup of this name; `BackupsUnreachable`, `OSError`, and what
        `progress` raises.
        """
        ...

    def delete(self, name: str) -> None:
        """Delete a backup. Raises `FileNotFoundError`, `OSError`, `BackupsUnreachable`."""
        ...


class BackupFolder:
    """A folder of backups."""

    def __init__(self, path: Path) -> None:
        """Use the folder; the first backup creates it."""
        self.path = path.absolute()
        self.shown = str(self.path)

    def names(self) -> list[str]:
        """Return the names of the backups."""
        with suppress(FileNotFoundError):
            return sorted(path.name for path in self.path.iterdir() if NAME.fullmatch(path.name))
        return []

    def manifests(self) -> dict[str, Json]:
        """Return the readable manifests by name, the oldest backup first."""
        read: dict[str, Json] = {}
        for name in self.names():
            with suppress(StoreCorrupt, FileNotFoundError):
                read[name] = read_manifest(self.path / name)
        return dict(sorted(read.items(), key=lambda item: item[1]["created_ms"]))

    def backups(self) -> list[Backup]:
        """Return the backups, the oldest first; those with an unreadable manifest come last."""
        return listed(self.names(), self.manifests())

    def take(
        self,
        name: str,
        store: LevelDBStore,
        facts: Json,
        progress: Progress,
        last: Json | None = None,
    ) -> Json:
        """Take a backup, as `BackupPlace`; `last` is the last manifest if it is elsewhere."""
        self.path.mkdir(mode=_MODE, parents=True, exist_ok=True)
        if (self.path / name).exists():
            raise FileExistsError(name)
        self._delete_unfinished()
        last = last or next(reversed(self.manifests().values()), None)
        manifest = {"version": VERSION, "name": name, **facts}
        draft = self.path / f".{name}.unfinished"
        try:
            draft.mkdir(mode=_MODE)
            (draft / LEVELDB).mkdir(mode=_MODE)
            with store.cut() as (cut, waited_s):
                manifest["paused_ms"] = round(waited_s * 1000, 1)
                (draft / FORMAT).write_bytes(store.format_file.read_bytes())
                digest = digest_of(draft / FORMAT)
                files = {FORMAT: {**_facts_of(draft / FORMAT), "sha256": digest}}
                files |= self._copied(cut, draft, _only_cut(last), progress)
            with self.opened(draft) as opened:
                mark = latest_mark(opened.transactions)
            shard: Json = {"files": files}
            if mark is not None:
                shard["mark"] = {"trusted_ms": mark.trusted_ms, "high": mark.high}
            manifest["shards"] = [shard]
            content = json.dumps({**manifest, "sha256": digest_of_manifest(manifest)}, indent=1)
            (draft / MANIFEST).write_text(content)
            for path in (draft / MANIFEST, draft / FORMAT, draft / LEVELDB, draft):
                sync(path)
            draft.rename(self.path / name)
            sync(self.path)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        return manifest

    def _copied(
        self, cut: Path, draft: Path, last: Mapping[str, Json], progress: Progress
    ) -> dict[str, Json]:
        """Link or copy the files of a cut, durably; return their facts."""
        files: dict[str, Json] = {}
        paths = sorted(cut.iterdir())
        done, size = 0, sum(path.stat().st_size for path in paths)
        for path in paths:
            place = f"{LEVELDB}/{path.name}"
            target, known = draft / place, last.get(place)
            facts = _facts_of(path)
            if known is not None and known["source"] == facts["source"]:
                before = self.path / known["backup"] / place
                if not _linked(path, target) and not (before.exists() and _linked(before, target)):
                    digest_of(path, target)
                files[place] = {**facts, "sha256": known["sha256"]}
            else:
                copy_to = None if _linked(path, target) else target
                files[place] = {**facts, "sha256": digest_of(path, copy_to)}
            done += facts["bytes"]
            progress(done, size)
        return files

    def verify(self, name: str, progress: Progress) -> int:
        """Verify a backup, as `BackupPlace`."""
        backup = self.path / name
        manifest = read_manifest(backup)
        check_digests(backup, manifest, progress)
        rows = 0
        with self.opened(backup) as opened:
            for table in (*ALL_TABLES, COORDINATION):
                with opened.store.scan(table, b"", _LAST_KEY) as scanned:
                    rows += sum(1 for _ in scanned)
            mark, saw = latest_mark(opened.transactions), only_shard(manifest).get("mark")
            if saw and (
                mark is None or mark.trusted_ms < saw["trusted_ms"] or mark.high < saw["high"]
            ):
                raise StoreCorrupt(backup=name, reason="its mark is older than its manifest says")
        return rows

    @contextmanager
    def opened(self, backup: Path) -> Iterator[StoreTables]:
        """Open a backup for reading, in another folder, which is deleted afterwards."""
        scratch = self.path / f".{backup.name.strip('.')}.opened"
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            (scratch / LEVELDB).mkdir(mode=_MODE, parents=True)
            for path in (backup / FORMAT, *(backup / LEVELDB).iterdir()):
                target = scratch / path.relative_to(backup)
                if path.suffix not in _TABLES or not _linked(path, target):
                    shutil.copyfile(path, target)
            tables = StoreTables(
                LevelDBStore(
                    scratch,
                    StoreAccess.READ,
                    block_cache_bytes=_PIECE_BYTES,
                    open_files_max=_OPEN_FILES_MAX,
                )
            )
            try:
                yield tables
            finally:
                tables.close()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def delete(self, name: str) -> None:
        """Delete a backup, as `BackupPlace`."""
        gone = self.path / f".{name}.unfinished"
        shutil.rmtree(gone, ignore_errors=True)
        (self.path / name).rename(gone)
        sync(self.path)
        shutil.rmtree(gone)

    def _delete_unfinished(self) -> None:
        for path in self.path.glob(".*"):
            if path.suffix in (".unfinished", ".opened"):
                shutil.rmtree(path)


def listed(names: Sequence[str], manifests: Mapping[str, Json]) -> list[Backup]:
    """Return backups by their manifests, the oldest first; then those without a manifest."""
    backups: list[Backup] = []
    seen: set[str] = set()
    for name, manifest in manifests.items():
        files = only_shard(manifest)["files"].values()
        backups.append(
            Backup(
                name=name,
                created_ms=manifest["created_ms"],
                bytes=sum(facts["bytes"] for facts in files),
                new_bytes=sum(f["bytes"] for f in files if f["sha256"] not in seen),
                paused_ms=manifest["paused_ms"],
                metadata=manifest["metadata"],
                version=manifest["tms"],
            )
        )
        seen |= {facts["sha256"] for facts in files}
    return [*backups, *(Backup(name=name) for name in names if name not in manifests)]


def read_manifest(backup: Path) -> Json:
    """Return a backup's manifest.

    Raises `StoreFileLost` if it is missing or damaged, `FileNotFoundError` without a backup.
    """
    path = backup / MANIFEST
    if not backup.is_dir():
        raise FileNotFoundError(backup)
    try:
        return decode_manifest(path.read_bytes(), str(path))
    except FileNotFoundError:
        raise StoreFileLost(file=str(path), reason="it is missing") from None


def decode_manifest(encoded: bytes, file: str) -> Json:
    """Return a manifest. Raises `StoreFileLost` if it is damaged or of a later version."""
    try:
        manifest: Json = json.loads(encoded)
        digest = manifest.pop("sha256")
        version = manifest["version"]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StoreFileLost(file=file, reason="it cannot be read") from None
    if digest != digest_of_manifest(manifest):
        raise StoreFileLost(file=file, reason="it is damaged")
    if version != VERSION or len(manifest["shards"]) != 1:
        raise StoreFileLost(file=file, reason="a later version of TMS wrote it: use that one")
    return manifest


def only_shard(manifest: Json) -> Json:
    """Return the only shard of a manifest."""
    shard: Json = manifest["shards"][0]
    return shard


def check_digests(folder: Path, manifest: Json, progress: Progress) -> None:
    """Compare the files of a backup, or of a copy of it, with the manifest.

    Raises `StoreFileLost`, `OSError`, and what `progress` raises.
    """
    files = only_shard(manifest)["files"]
    done, size = 0, sum(facts["bytes"] for facts in files.values())
    for place, facts in files.items():
        check_file(folder / place, facts)
        done += facts["bytes"]
        progress(done, size)
    there = {f"{LEVELDB}/{path.name}" for path in (folder / LEVELDB).iterdir()} | {FORMAT}
    for place in sorted(there - files.keys()):
        raise StoreFileLost(file=str(folder / place), reason="it is not part of the backup")


def check_file(path: Path, facts: Json) -> None:
    """Compare a file with its facts in a manifest. Raises `StoreFileLost`, `OSError`."""
    if not path.is_file():
        raise StoreFileLost(file=str(path), reason="it is missing")
    if digest_of(path) != facts["sha256"]:
        raise StoreFileLost(file=str(path), reason="its bytes are not those that were saved")


def digest_of(path: Path, copy_to: Path | None = None) -> str:
    """Return the SHA-256 of a file; copy it on the way, durably, if `copy_to` says where."""
    digest = hashlib.sha256()
    with path.open("rb") as source:
        target = None if copy_to is None else copy_to.open("wb")
        try:
            while piece := source.read(_PIECE_BYTES):
                digest.update(piece)
                if target is not None:
                    target.write(piece)
            if target is not None:
                target.flush()
                os.fsync(target.fileno())
        finally:
            if target is not None:
                target.close()
    return digest.hexdigest()


def _facts_of(path: Path) -> Json:
    """Return the size of a file, and for a table, which never changes, what identifies it."""
    found = path.stat()
    if path.suffix not in _TABLES:
        return {"bytes": found.st_size}
    return {"bytes": found.st_size, "source": [found.st_ino, found.st_mtime_ns]}


def _only_cut(manifest: Json | None) -> Mapping[str, Json]:
    """Return the tables of the last backup, with the name of the backup."""
    if manifest is None:
        return {}
    return {
        place: {**facts, "backup": manifest["name"]}
        for place, facts in only_shard(manifest)["files"].items()
        if "source" in facts
    }


def _linked(path: Path, target: Path) -> bool:
    """Link a table, if the file systems allow that; other files are never linked."""
    if path.suffix not in _TABLES:
        return False
    try:
        os.link(path, target)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        return False
    return True


def digest_of_manifest(manifest: Json) -> str:
    """Return the SHA-256 of a manifest without its own field `sha256`."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
