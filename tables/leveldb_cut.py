"""A cut: LevelDB's files as they are at one moment, in another folder, while it stays open.

LevelDB never changes a table file, so the cut has hard links to them, which take no room and no
time. It appends to its log and its MANIFEST, and deletes tables and logs that it has merged:

1. Most tables are linked while writes continue.
2. Then writes stop, for milliseconds. The length of the MANIFEST is noted, the rest is linked, and
   the length of the log, which is now complete, is noted. Nothing is read, because the MANIFEST of
   a server that has run for long is large.
3. Writes continue. The links of the log and of the MANIFEST are replaced by copies of these
   lengths, and everything that the MANIFEST does not name is deleted. Merging never stopped: it
   appends an edit to the MANIFEST before it deletes the files that the edit replaces. So if a file
   that the copied MANIFEST names is missing, a later edit exists, and step 2 is repeated.

Opening the cut is the same as opening the store after a crash at that moment.
"""

import os
import re
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from tables.leveldb_files import CURRENT, check_files, read_manifest
from tables.leveldb_log import whole_entries
from tms.core.errors import StoreFileLost, StoreUnavailable

_TRIES = 100
_LOG = re.compile(r"(\d+)\.log")
_TABLE = re.compile(r"(\d+)\.(?:ldb|sst)")


def take_cut(
    leveldb: Path, cut: Path, no_writes: Callable[[], AbstractContextManager[None]]
) -> None:
    """Make the folder `cut`, durably, on the same file system; it must not exist.

    While `no_writes()` is entered, nobody may write rows. Raises `OSError`, and `StoreUnavailable`
    if LevelDB merges files faster than they are linked. Then the folder may be incomplete.
    """
    cut.mkdir(mode=0o700, parents=True)
    _link(leveldb, cut, _TABLE)
    for _ in range(_TRIES):
        _link(leveldb, cut, _TABLE)  # these are few
        with no_writes():
            current = (leveldb / CURRENT).read_bytes()
            manifest = current.decode().strip()
            (cut / manifest).hardlink_to(leveldb / manifest)
            manifest_bytes = (cut / manifest).stat().st_size
            _link(leveldb, cut, _TABLE, _LOG)
            log_bytes = {log: log.stat().st_size for log in cut.glob("*.log")}
        (cut / CURRENT).write_bytes(current)
        if _has_all_files(cut, cut / manifest, manifest_bytes):
            break
        (cut / manifest).unlink()
    else:
        raise StoreUnavailable(reason="LevelDB merges files faster than they are linked")
    _keep_named(cut)
    for log, size in log_bytes.items():
        if log.exists():
            _replace_by_copy(log, size)
    for path in (*cut.glob("MANIFEST-*"), cut / CURRENT, cut):
        sync(path)


def _link(leveldb: Path, cut: Path, *kinds: re.Pattern[str]) -> None:
    """Link the files of these kinds that are not linked yet."""
    linked = {path.name for path in cut.iterdir()}
    for path in leveldb.iterdir():
        if path.name not in linked and any(kind.fullmatch(path.name) for kind in kinds):
            with suppress(FileNotFoundError):  # it was merged
                (cut / path.name).hardlink_to(path)


def _has_all_files(cut: Path, manifest: Path, size: int) -> bool:
    """Keep the MANIFEST's complete edits up to a size; return whether its files are in the cut."""
    with manifest.open("rb") as linked:
        edits = whole_entries(linked.read(size))
    manifest.unlink()
    manifest.write_bytes(edits)
    try:
        check_files(cut)
    except StoreFileLost:
        return False
    return True


def _keep_named(cut: Path) -> None:
    """Delete the tables and logs that the cut's MANIFEST does not need."""
    manifest = read_manifest(cut)
    for path in list(cut.iterdir()):
        table, log = _TABLE.fullmatch(path.name), _LOG.fullmatch(path.name)
        is_left = table is not None and int(table[1]) not in manifest.table_bytes
        if is_left or (log is not None and int(log[1]) < manifest.oldest_log):
            path.unlink()


def _replace_by_copy(log: Path, size: int) -> None:
    """Replace the link of a log, to which LevelDB appends, by a copy of its first bytes."""
    draft = log.with_suffix(".draft")
    with log.open("rb") as source, draft.open("wb") as target:
        shutil.copyfileobj(source, target)
        target.truncate(size)
    sync(draft)
    draft.replace(log)


def sync(path: Path) -> None:
    """Make a file, or a folder's list of files, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
