"""Backups at a URL that fsspec knows, such as S3, SFTP and FTP.

    URL/NAME.json       the manifest, that of a folder of backups (docs/formats.md)
    URL/files/SHA256    a file of one or several backups

1. The manifest is written last, under another name first, so a backup that is listed is complete.
   What an interrupted upload left is overwritten or deleted.
2. A file that an earlier backup has is not sent again, even if it was renamed.
3. A backup is first taken on the store's disk, by hard links, and opened there; verifying copies it
   there. `staged` is deleted afterwards, also by the next process.
4. One server uses a URL: deleting a backup deletes all files that no backup names.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import fsspec

from tables.backups import (
    LEVELDB,
    MANIFEST,
    NAME,
    BackupFolder,
    Json,
    Progress,
    check_file,
    decode_manifest,
    digest_of_manifest,
    listed,
    only_shard,
)
from tables.leveldb import LevelDBStore
from tables.leveldb_cut import sync
from tms.core.errors import BackupsUnreachable, StoreCorrupt, StoreFileLost, StoreNotFound, TmsError
from tms.core.text.credentials import without_credentials
from tms.core.values.backups import Backup

_SUFFIX = ".json"
_UNFINISHED = ".unfinished"


class _Connection:
    """A connection for one piece of work: an idle one would be closed by its server."""

    def __init__(self, url: str) -> None:
        self.fs, root = fsspec.core.url_to_fs(
            url, use_listings_cache=False, skip_instance_cache=True
        )
        self.root: str = root.rstrip("/")

    def file(self, sha256: str) -> str:
        return f"{self.root}/files/{sha256}"

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the sizes of the files in a folder, by their names."""
        try:
            found = self.fs.ls(folder, detail=True)
        except FileNotFoundError:
            return {}
        files = [each for each in found if each["type"] == "file"]
        return {each["name"].rpartition("/")[2]: each["size"] or 0 for each in files}

    def manifest(self, name: str) -> Json:
        path = f"{self.root}/{name}{_SUFFIX}"
        return decode_manifest(self.fs.cat_file(path), without_credentials(path))

    def names(self) -> list[str]:
        found = (each for each in self.sizes(self.root) if each.endswith(_SUFFIX))
        names = (each.removesuffix(_SUFFIX) for each in found)
        return sorted(name for name in names if NAME.fullmatch(name))

    def manifests(self, names: list[str]) -> dict[str, Json]:
        """Return the readable manifests by name, the oldest backup first."""
        read: dict[str, Json] = {}
        for name in names:
            with suppress(StoreCorrupt, FileNotFoundError):
                read[name] = self.manifest(name)
        return dict(sorted(read.items(), key=lambda item: item[1]["created_ms"]))

    def put_manifest(self, name: str, path: Path) -> None:
        draft = f"{self.root}/{name}{_UNFINISHED}"
        self.fs.put_file(str(path), draft)
        self.fs.mv(draft, f"{self.root}/{name}{_SUFFIX}")

    def delete_unnamed(self, names: list[str], manifests: Mapping[str, Json]) -> None:
        """Delete what no backup names, unless a manifest cannot be read."""
        for each in self.sizes(self.root):
            if each.endswith(_UNFINISHED):
                self.fs.rm_file(f"{self.root}/{each}")
        if len(manifests) < len(names):
            return
        for sha256 in self.sizes(f"{self.root}/files").keys() - _digests(manifests):
            self.fs.rm_file(self.file(sha256))


def _digests(manifests: Mapping[str, Json]) -> set[str]:
    return {
        facts["sha256"]
        for manifest in manifests.values()
        for facts in only_shard(manifest)["files"].values()
    }


@contextmanager
def _reaching(url: str) -> Iterator[None]:
    """Raise `BackupsUnreachable` for all errors of a file system."""
    try:
        yield
    except (TmsError, FileExistsError):
        raise
    except Exception as error:  # each file system has errors of its own
        reason = without_credentials(f"{type(error).__name__}: {error}")
        raise BackupsUnreachable(url=without_credentials(url), reason=reason) from error


class RemoteSource:
    """One backup at a URL, as `BackupSource`."""

    def __init__(self, url: str) -> None:
        """Read URL/NAME. Raises `BackupsUnreachable`."""
        self._place, _, self._name = url.rstrip("/").rpartition("/")
        with _reaching(self._place):
            self._connection = _Connection(self._place)
            self._there = self._connection.sizes(f"{self._connection.root}/files")

    def manifest(self) -> Json:
        """Return the manifest."""
        with _reaching(self._place):
            try:
                return self._connection.manifest(self._name)
            except FileNotFoundError:
                shown = without_credentials(f"{self._place}/{self._name}")
                raise StoreNotFound(folder=shown) from None

    def copy(self, place: str, target: Path, facts: Json) -> None:
        """Copy a file, and compare what was written."""
        path = self._connection.file(facts["sha256"])
        with _reaching(self._place):
            target.unlink(missing_ok=True)
            if (
                facts["sha256"] in self._there
            ):  # file systems differ in what they raise if it is not
                self._connection.fs.get_file(path, str(target))
            try:
                check_file(target, facts)
            except StoreFileLost as lost:
                raise StoreFileLost(file=path, place=place, reason=lost.detail["reason"]) from None
            sync(target)


class RemoteBackups:
    """The backups at a URL, as `BackupPlace`."""

    def __init__(self, url: str, staged: Path) -> None:
        """Keep them at `url`; `staged` is a folder on the store's file system."""
        self._url = url.rstrip("/")
        self._staged = staged
        self.shown = without_credentials(self._url)
        shutil.rmtree(staged, ignore_errors=True)

    def names(self) -> list[str]:
        """Return the names of the backups."""
        with _reaching(self._url):
            return _Connection(self._url).names()

    def backups(self) -> list[Backup]:
        """Return the backups."""
        with _reaching(self._url):
            connection = _Connection(self._url)
            names = connection.names()
            return listed(names, connection.manifests(names))

    def take(self, name: str, store: LevelDBStore, facts: Json, progress: Progress) -> Json:
        """Take a backup here, and send the files that no earlier one has."""
        with _reaching(self._url), self._staging() as staged:
            connection = _Connection(self._url)
            names = connection.names()
            if name in names:
                raise FileExistsError(name)
            manifests = connection.manifests(names)
            connection.delete_unnamed(names, manifests)
            last = next(reversed(manifests.values()), None)
            manifest = staged.take(name, store, facts, lambda _, size: progress(0, size), last)
            connection.fs.makedirs(f"{connection.root}/files", exist_ok=True)
            complete, sizes = _digests(manifests), connection.sizes(f"{connection.root}/files")
            files = only_shard(manifest)["files"]
            done, size = 0, sum(each["bytes"] for each in files.values())
            for place, each in files.items():
                sha256 = each["sha256"]
                if sha256 not in complete or sizes.get(sha256) != each["bytes"]:
                    connection.fs.put_file(str(staged.path / name / place), connection.file(sha256))
                done += each["bytes"]
                progress(done, size)
            connection.put_manifest(name, staged.path / name / MANIFEST)
            return manifest

    def verify(self, name: str, progress: Progress) -> int:
        """Copy a backup to the store's disk, and verify it there."""
        source = RemoteSource(f"{self._url}/{name}")
        manifest = source.manifest()
        with self._staging() as staged:
            backup = staged.path / name
            (backup / LEVELDB).mkdir(mode=0o700, parents=True)
            digest = digest_of_manifest(manifest)
            (backup / MANIFEST).write_text(json.dumps({**manifest, "sha256": digest}))
            files = only_shard(manifest)["files"]
            done, size = 0, sum(each["bytes"] for each in files.values())
            for place, facts in files.items():
                source.copy(place, backup / place, facts)
                done += facts["bytes"]
                progress(done, size)
            return staged.verify(name, lambda _, size: progress(size, size))

    def delete(self, name: str) -> None:
        """Delete a backup, then the files that no other one has."""
        with _reaching(self._url):
            connection = _Connection(self._url)
            connection.fs.rm_file(f"{connection.root}/{name}{_SUFFIX}")
            names = connection.names()
            connection.delete_unnamed(names, connection.manifests(names))

    @contextmanager
    def _staging(self) -> Iterator[BackupFolder]:
        try:
            yield BackupFolder(self._staged)
        finally:
            shutil.rmtree(self._staged, ignore_errors=True)
