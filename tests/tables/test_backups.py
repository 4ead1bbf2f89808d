"""Backups of an open store: their content, their shared files, and damage to them."""

import os
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tables.backups import BackupFolder, digest_of_manifest, read_manifest
from tables.leveldb import LevelDBStore
from tables.restoring import FolderSource, restore
from tables.store import MESSAGE
from tests.scale import scaled, seed
from tests.tables.filled_stores import facts, fill, ignore, last_in
from tms.core.errors import (
    CopyRefused,
    FolderUnusable,
    StoreFileLost,
    StoreLocked,
    StoreNotFound,
    StoreUnavailable,
)
from tms.core.values.store_access import StoreAccess

CUTS = scaled(40)
ELSEWHERE = Path("/dev/shm")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LevelDBStore]:
    opened = LevelDBStore(tmp_path / "store", sync=False, write_buffer_bytes=64 * 1024)
    yield opened
    opened.close()


@pytest.fixture
def folder(tmp_path: Path) -> BackupFolder:
    return BackupFolder(tmp_path / "backups")


def taken(folder: BackupFolder, store: LevelDBStore, name: str, created_ms: int = 1) -> Path:
    folder.take(name, store, facts(created_ms), ignore)
    return folder.path / name


def test_a_backup_amid_writes_and_merges_is_the_store_at_one_moment(
    store: LevelDBStore, folder: BackupFolder, tmp_path: Path
) -> None:
    written = 0
    stopped = threading.Event()

    def write() -> None:
        nonlocal written
        while not stopped.is_set() and written < 400:
            fill(store, written + 1)
            written += 1

    def merge() -> None:
        while not stopped.is_set():
            store.compact(MESSAGE, b"", b"\xff")

    threads = [threading.Thread(target=each) for each in (write, merge)]
    for thread in threads:
        thread.start()
    try:
        for number in range(CUTS):
            before = written
            backup = taken(folder, store, f"b{number}", number)
            after = written
            restored = tmp_path / f"restored{number}"
            restore(FolderSource(backup), restored, ignore)
            opened = LevelDBStore(restored)
            assert before <= last_in(opened) <= after + 1
            fill(opened, last_in(opened) + 1)
            opened.close()
            shutil.rmtree(restored)
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
    folder.verify("b0", ignore)


def test_a_backup_shares_the_tables_of_the_store_or_of_the_last_backup(
    store: LevelDBStore, folder: BackupFolder
) -> None:
    elsewhere = BackupFolder(ELSEWHERE / f"tms-{os.getpid()}")
    try:
        for number in (1, 2):
            fill(store, number, 1000)
            if number == 1:
                store.compact(MESSAGE, b"", b"\xff")
            for each in (folder, elsewhere):
                taken(each, store, str(number), number)
                assert each.verify(str(number), ignore) == 1000 * number + 1
        for each in (folder, elsewhere):
            first, second = (
                {p.name: p for p in (each.path / n / "leveldb").glob("*.ldb")} for n in "12"
            )
            shared = first.keys() & second.keys()
            assert shared
            assert all(first[name].samefile(second[name]) for name in shared)
            new = [backup.new_bytes or 0 for backup in each.backups()]
            whole = [backup.bytes or 0 for backup in each.backups()]
            assert new[0] == whole[0]
            assert 0 < new[1] < whole[1]
        each.delete("1")
        assert elsewhere.verify("2", ignore) == 2001
    finally:
        shutil.rmtree(elsewhere.path)


def test_nothing_of_a_backup_is_readable_by_others(
    store: LevelDBStore, folder: BackupFolder
) -> None:
    backup = taken(folder, store, "b")
    assert [path.stat().st_mode & 0o777 for path in (folder.path, backup, backup / "leveldb")] == [
        0o700
    ] * 3


def test_each_flipped_bit_and_each_missing_file_is_told(
    store: LevelDBStore, folder: BackupFolder, tmp_path: Path
) -> None:
    fill(store, 1)
    backup = taken(folder, store, "b")
    chance = random.Random(seed())
    for path in sorted(each for each in backup.rglob("*") if each.is_file()):
        content = path.read_bytes()
        damaged = bytearray(content)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        path.unlink()  # this table is shared with the store
        for other in (None, bytes(damaged), content[:-1], b""):
            if other is not None:
                path.write_bytes(other)
            with pytest.raises(StoreFileLost) as told:
                folder.verify("b", ignore)
            assert told.value.detail["file"] == str(path)
            with pytest.raises(StoreFileLost):
                restore(FolderSource(backup), tmp_path / "restored", ignore)
        path.write_bytes(content)
        shutil.rmtree(tmp_path / "restored", ignore_errors=True)
    folder.verify("b", ignore)
    (backup / "leveldb/000099.ldb").write_bytes(b"")
    with pytest.raises(StoreFileLost, match="not part of the backup"):
        folder.verify("b", ignore)


def test_an_unfinished_backup_has_no_name_and_is_deleted_by_the_next(
    store: LevelDBStore, folder: BackupFolder
) -> None:
    def stop(done: int, size: int) -> None:
        raise StoreUnavailable

    with pytest.raises(StoreUnavailable):
        folder.take("a", store, facts(), stop)
    (folder.path / ".killed.unfinished/leveldb").mkdir(parents=True)
    (folder.path / ".killed.opened").mkdir()
    assert folder.names() == []
    taken(folder, store, "b")
    assert [path.name for path in folder.path.iterdir()] == ["b"]
    with pytest.raises(FileExistsError):
        folder.take("b", store, facts(), ignore)


def test_a_cut_that_a_dead_process_left_is_deleted_at_the_next_opening(tmp_path: Path) -> None:
    LevelDBStore(tmp_path).close()
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut/000005.ldb").write_bytes(b"")
    LevelDBStore(tmp_path, StoreAccess.READ).close()
    assert (tmp_path / "cut").exists()
    LevelDBStore(tmp_path).close()
    assert not (tmp_path / "cut").exists()


def test_an_interrupted_restore_is_no_store_and_continues(
    store: LevelDBStore, folder: BackupFolder, tmp_path: Path
) -> None:
    fill(store, 1, 1000)
    backup = taken(folder, store, "b")
    other = taken(folder, store, "c")
    files = len([*backup.rglob("*")]) - 2  # not counting the folder and the manifest
    target = tmp_path / "restored"
    copied: dict[Path, int] = {}
    for count in range(1, files):
        done: list[int] = []

        def stop(so_far: int, _: int) -> None:
            done.append(so_far)  # noqa: B023  called only in this turn
            if len(done) == count:  # noqa: B023
                raise StoreUnavailable

        with pytest.raises(StoreUnavailable):
            restore(FolderSource(backup), target, stop)
        with pytest.raises(FolderUnusable, match="tms restore"):
            LevelDBStore(target)
        with pytest.raises(CopyRefused, match="another backup"):
            restore(FolderSource(other), target, ignore)
        there = {each: each.stat().st_mtime_ns for each in target.glob("leveldb.restoring/*")}
        assert {each: there[each] for each in copied} == copied, "an equal file was copied again"
        copied = there
    restore(FolderSource(backup), target, ignore)
    opened = LevelDBStore(target)
    with opened.scan(MESSAGE, b"", b"\xff") as rows:
        assert sum(1 for _ in rows) == 1001
    with pytest.raises(StoreLocked):
        restore(FolderSource(backup), target, ignore)
    opened.close()
    with pytest.raises(CopyRefused, match="there is a store"):
        restore(FolderSource(backup), target, ignore)
    with pytest.raises(StoreNotFound):
        restore(FolderSource(tmp_path / "nowhere"), tmp_path / "other", ignore)


def test_a_restore_whose_mark_alone_is_left_only_ends(
    store: LevelDBStore, folder: BackupFolder, tmp_path: Path
) -> None:
    backup = taken(folder, store, "b")
    target = tmp_path / "restored"
    restore(FolderSource(backup), target, ignore)
    (target / "tms.restoring").write_text(digest_of_manifest(read_manifest(backup)))
    with pytest.raises(FolderUnusable):
        LevelDBStore(target)
    restore(FolderSource(backup), target, ignore)
    LevelDBStore(target).close()
