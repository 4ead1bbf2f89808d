"""Backups at URLs: what is sent, interruptions at each file, damage, deleting and restoring."""

import random
import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from tables.leveldb import LevelDBStore
from tables.remote_backups import RemoteBackups, RemoteSource
from tables.restoring import restore
from tests.scale import seed
from tests.servers.ftp_server import PASSWORD, ftp_server
from tests.tables.filled_stores import facts, fill, ignore, last_in
from tms.core.errors import BackupsUnreachable, StoreFileLost, StoreNotFound, StoreUnavailable


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LevelDBStore]:
    opened = LevelDBStore(tmp_path / "store", sync=False, write_buffer_bytes=64 * 1024)
    yield opened
    opened.close()


@pytest.fixture(params=["file", "memory", "ftp"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "remote"
    folder.mkdir()
    if request.param == "ftp":
        with ftp_server(folder) as served:
            yield f"{served}/deep/backups"
    else:
        yield f"file://{folder}/b" if request.param == "file" else f"memory://{uuid.uuid4()}"


@pytest.fixture
def backups(url: str, tmp_path: Path) -> RemoteBackups:
    return RemoteBackups(url, tmp_path / "store/staged")


def files_at(url: str) -> dict[str, int]:
    """Return the files at a URL, with their sizes."""
    fs, root = fsspec.core.url_to_fs(url, use_listings_cache=False, skip_instance_cache=True)
    found = fs.ls(f"{root}/files", detail=True)
    return {each["name"].rpartition("/")[2]: each["size"] for each in found}


def restored(url: str, folder: Path) -> int:
    restore(RemoteSource(url), folder, ignore)
    opened = LevelDBStore(folder)
    number = last_in(opened)
    opened.close()
    return number


def test_a_later_backup_sends_new_files_alone_and_each_is_restored(
    store: LevelDBStore, backups: RemoteBackups, url: str, tmp_path: Path
) -> None:
    assert (backups.names(), backups.backups()) == ([], [])
    for number in (1, 2, 3):
        fill(store, number)
        backups.take(f"b{number}", store, facts(number), ignore)
    first, *later = backups.backups()
    assert [each.name for each in (first, *later)] == backups.names() == ["b1", "b2", "b3"]
    assert all(each.new_bytes and each.bytes and each.new_bytes < each.bytes for each in later)
    assert sum(files_at(url).values()) == sum(each.new_bytes or 0 for each in (first, *later))
    with pytest.raises(FileExistsError):
        backups.take("b3", store, facts(), ignore)
    for number in (1, 2, 3):
        assert backups.verify(f"b{number}", ignore) > 300 * number
        assert restored(f"{url}/b{number}", tmp_path / f"restored{number}") == number
    assert not (tmp_path / "store/staged").exists()
    backups.delete("b1")
    backups.delete("b2")
    assert backups.verify("b3", ignore) > 900
    assert sum(files_at(url).values()) == backups.backups()[0].bytes
    with pytest.raises(StoreNotFound):
        restore(RemoteSource(f"{url}/b1"), tmp_path / "none", ignore)


def test_an_interrupted_upload_is_never_listed_and_the_next_one_is_complete(
    store: LevelDBStore, backups: RemoteBackups, url: str, tmp_path: Path
) -> None:
    fill(store, 1)
    backups.take("first", store, facts(), ignore)
    fill(store, 2)
    interrupted = 0
    for stop_after in range(100):
        calls = 0

        def stop(done: int, _: int, stop_after: int = stop_after) -> None:
            nonlocal calls
            calls += 1
            if calls > stop_after:
                raise StoreUnavailable

        try:
            backups.take("second", store, facts(2), stop)
        except StoreUnavailable:
            interrupted += 1
            assert backups.names() == ["first"]
        else:
            break
    assert interrupted > 3
    assert backups.names() == ["first", "second"]
    assert sum(files_at(url).values()) == sum(each.new_bytes or 0 for each in backups.backups())
    assert restored(f"{url}/second", tmp_path / "restored") == 2


def test_damage_and_missing_files_are_reported(
    store: LevelDBStore, backups: RemoteBackups, url: str, tmp_path: Path
) -> None:
    chance = random.Random(seed())
    fill(store, 1)
    backups.take("b", store, facts(), ignore)
    fs, root = fsspec.core.url_to_fs(url)
    name = chance.choice([name for name, size in files_at(url).items() if size])
    intact = fs.cat_file(f"{root}/files/{name}")
    place = chance.randrange(len(intact))
    flipped = intact[:place] + bytes([intact[place] ^ 1]) + intact[place + 1 :]
    for damaged in (flipped, intact[:place], None):
        fs.rm_file(f"{root}/files/{name}")
        if damaged is not None:
            fs.pipe_file(f"{root}/files/{name}", damaged)
        with pytest.raises(StoreFileLost, match=name):
            backups.verify("b", ignore)
        with pytest.raises(StoreFileLost, match=name):
            restore(RemoteSource(f"{url}/b"), tmp_path / "restored", ignore)
        fs.pipe_file(f"{root}/files/{name}", intact)
    assert restored(f"{url}/b", tmp_path / "restored") == 1
    manifest = fs.cat_file(f"{root}/b.json")
    fs.pipe_file(f"{root}/b.json", manifest[:-2])
    assert [(each.name, each.created_ms) for each in backups.backups()] == [("b", None)]
    with pytest.raises(StoreFileLost, match=r"b\.json"):
        backups.verify("b", ignore)
    fill(store, 2)
    backups.take("c", store, facts(2), ignore)
    assert name in files_at(url), "files were deleted although one manifest cannot be read"
    backups.delete("b")
    assert restored(f"{url}/c", tmp_path / "restored-c") == 2


def test_a_place_that_is_away_is_reported_without_its_password(
    store: LevelDBStore, tmp_path: Path
) -> None:
    (tmp_path / "remote").mkdir()
    with ftp_server(tmp_path / "remote") as url:
        pass
    remote = RemoteBackups(url, tmp_path / "store/staged")
    for call in (remote.names, lambda: remote.take("b", store, facts(), ignore)):
        with pytest.raises(BackupsUnreachable) as refused:
            call()
        assert PASSWORD not in str(refused.value)
    assert PASSWORD not in remote.shown
