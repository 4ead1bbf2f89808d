"""Opens a metadata store by its URL.

    memory://NAME      in this process; `memory://local` is another store each time
    leveldb:DIR        on this machine's disk, shared with a server that has its data there
    zk://… etcd://…    a server of its own (`tms.core.text.metadata_url`): `tms.metadata.address`

A folder is opened once per process, and its sessions share it; it is released with the last of
them. `OpenFolder`, a parameter, opens the rows in a folder.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tms.core.runtime import extras
from tms.core.runtime.shared_work import shared
from tms.core.text.credentials import without_credentials
from tms.core.text.metadata_url import ETCD, KEPT_WRITTEN, SERVERS, ZOOKEEPER, ServerKind
from tms.core.values.metadata_rows import MetadataRows
from tms.metadata.address import Address, parse
from tms.metadata.host import MetadataHost, open_host
from tms.metadata.interface import MetadataStore
from tms.metadata.journal import MetadataJournal
from tms.metadata.memory import PRIVATE, open_memory
from tms.metadata.remote import Link, MetadataServer, RemoteStore


class Folder(NamedTuple):
    """A folder's rows, and the function that releases it."""

    rows: MetadataRows
    release: Callable[[], None]


MakeServer = Callable[[Address, Link], MetadataServer]
OpenFolder = Callable[[Path], Folder]
"""Blocks while a store recovers. Raises `StoreError`, `StoreUnavailable`."""

_hosts: dict[Path, "asyncio.Future[MetadataHost]"] = {}


async def open_store(url: str, open_folder: OpenFolder) -> MetadataStore:
    """Return a new session with the store at `url`; close it when done.

    Raises ValueError for another URL, ModuleNotFoundError if a required package is not installed,
    `StoreError`, `StoreUnavailable` and `MetadataUnavailable`.
    """
    kind, _, place = url.partition(":")
    if kind == "memory" and place.startswith("//"):
        return open_memory(place.removeprefix("//") or PRIVATE)
    if kind == "leveldb" and place:
        path = await asyncio.to_thread(os.path.realpath, place)
        return await _open_local(Path(path), open_folder)
    if kind in SERVERS and place.startswith("//"):
        server = SERVERS[kind]
        try:
            made = WAYS[server]()
        except ModuleNotFoundError as error:
            raise extras.missing(server.needs, error, server.extra) from error
        return await _open_remote(made, parse(url))
    shown, urls = without_credentials(url), f"memory://NAME, {KEPT_WRITTEN}"
    raise ValueError(f"there is no metadata store at {shown!r}: give {urls}")


def _zookeeper() -> MakeServer:
    from tms.metadata.zookeeper.session import ZooKeeper  # noqa: PLC0415  an extra

    return ZooKeeper


def _etcd() -> MakeServer:
    from tms.metadata.etcd.session import Etcd  # noqa: PLC0415  an extra

    return Etcd


WAYS: dict[ServerKind, Callable[[], MakeServer]] = {ZOOKEEPER: _zookeeper, ETCD: _etcd}
"""Return the constructor of each kind of server. They raise `ModuleNotFoundError`."""


async def _open_remote(kind: MakeServer, address: Address) -> RemoteStore:
    link = Link(address.session_timeout_s * 1000)
    server = kind(address, link)
    try:
        await server.open()
    except BaseException:
        await server.close()
        raise
    return RemoteStore(server, link)


async def _open_local(path: Path, open_folder: OpenFolder) -> MetadataStore:
    opening = _hosts.get(path)
    if opening is None:
        opening = asyncio.ensure_future(_open_host(path, open_folder))
        _hosts[path] = opening
    try:
        # Shielded, so that a cancelled caller does not cancel the others.
        host = await shared(opening)
    except BaseException:
        if _hosts.get(path) is opening and opening.done():
            del _hosts[path]
        raise
    return host.open_session()


async def _open_host(path: Path, open_folder: OpenFolder) -> MetadataHost:
    folder = await asyncio.to_thread(open_folder, path)

    async def release() -> None:
        _hosts.pop(path, None)
        await asyncio.to_thread(folder.release)

    try:
        host = await open_host(MetadataJournal(folder.rows))
    except BaseException:
        folder.release()
        raise
    host.on_unused = release
    return host
