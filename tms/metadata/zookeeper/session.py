"""A session with ZooKeeper, as a metadata store's server (`tms.metadata.remote`).

Waiting writes share one request, and so do waiting reads. A refused write makes the whole request
fail, so each is then sent by itself, at once. Two writes of one node never share a request, because
they would share a revision. Before several reads, the session asks for the nodes' sizes: ZooKeeper
has the whole answer in memory, several times, and 64 MB at once kill a server with 512 MB.
"""

import asyncio
import logging
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from kazoo.protocol.serialization import Create2, Delete, Exists, GetChildren, GetData, SetData
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from tms.core.errors import (
    BadVersion,
    InvalidRequest,
    LockBusy,
    MetadataClosed,
    MetadataUnavailable,
    PathHasChildren,
    PathNotFound,
)
from tms.core.runtime.shared_work import shared
from tms.core.runtime.supervision import supervised
from tms.metadata.address import Address
from tms.metadata.batching import Batcher
from tms.metadata.interface import NEW, Change, Stat, Value
from tms.metadata.paths import ROOT, ancestors, parent_of
from tms.metadata.remote import Link
from tms.metadata.tree import DIGITS, Put
from tms.metadata.zookeeper.batches import (
    answer_bytes,
    count_of_reads,
    count_of_writes,
    count_within,
)
from tms.metadata.zookeeper.connection import CONNECTED, LOST, ZooKeeperConnection
from tms.metadata.zookeeper.layout import Layout, names_of
from tms.metadata.zookeeper.requests import (
    AddWatch,
    CreateContainer,
    FailedRequest,
    MultiRead,
    MultiWrite,
)

_log = logging.getLogger(__name__)

_ANY = -1
_EPHEMERAL = 1
_TRIES = 20
"""How often other writers may interfere in one call."""
_CHANGES = {1: Change.CREATED, 2: Change.DELETED, 3: Change.MODIFIED}


class ZooKeeper:
    """A session with ZooKeeper. `tms.metadata.opening` opens it."""

    def __init__(self, address: Address, link: Link) -> None:
        self._layout = Layout(address.base)
        self._link = link
        self._acl = OPEN_ACL_UNSAFE if address.user is None else CREATOR_ALL_ACL
        self._session = 0
        self._is_closing = False
        self._connection = ZooKeeperConnection(address, self)
        self._reads: Batcher[Any, Any] = Batcher(self._send_reads, count_of_reads)
        self._writes: Batcher[Any, Any] = Batcher(self._send_writes, count_of_writes)
        self._making: dict[str, asyncio.Task[None]] = {}
        self._untidy: set[str] = set()
        self._tidying: asyncio.Task[None] | None = None
        self._preparing: set[asyncio.Task[None]] = set()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self) -> None:
        """Return when the store can be used. Raises `MetadataUnavailable`."""
        self._connection.start()
        timeout_s = self._link.watch.timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s):
                await shared(self._ready)
        except TimeoutError:
            reason = f"no connection within {timeout_s} s"
            raise MetadataUnavailable(reason=reason) from None

    def on_state(self, state: str, session: int) -> None:
        """Receive kazoo's state of the connection."""
        if self._is_closing:
            return
        if state == CONNECTED:
            self._session = session
            task = supervised("preparing the session with ZooKeeper", self._prepare)
            self._preparing.add(task)
            task.add_done_callback(self._preparing.discard)
        elif state == LOST:
            self._link.expired()
        else:
            self._link.broken()

    def on_granted(self, timeout_ms: float) -> None:
        """Receive the session timeout that the server grants."""
        self._link.watch.timeout_ms = timeout_ms

    def on_change(self, kind: int, node: str) -> None:
        """Receive a change of a node."""
        place = self._layout.path_of(node)
        if place is None or kind not in _CHANGES:
            return
        path, is_folder = place
        if is_folder:
            self._link.children_changed([parent_of(path)])
            return
        self._link.changed(_CHANGES[kind], path)
        if _CHANGES[kind] is Change.DELETED and not self._is_closing:
            # It may have ended with its session, and then nobody else cleans up for a minute.
            self._untidy.add(parent_of(path))
            if self._tidying is None:
                self._tidying = asyncio.ensure_future(self._tidy_all())

    async def _tidy_all(self) -> None:
        try:
            while self._untidy:
                await self._tidy(self._untidy.pop())
        except (MetadataUnavailable, MetadataClosed):
            self._untidy.clear()  # ZooKeeper deletes them later
        finally:
            self._tidying = None

    async def _prepare(self) -> None:
        """Create the nodes that every store has, and watch for changes on this connection."""
        sent_ms = self._link.clock.steady_ms()
        try:
            if not self._ready.done():
                await self._create_base()
            await self._answer(AddWatch(self._layout.base))
        except MetadataUnavailable as error:
            _log.info("the connection to ZooKeeper is not ready: %s", error)
            if isinstance(error.__cause__, NoAuthError) and not self._ready.done():
                self._ready.set_exception(error)  # a retry would not help
            return
        self._link.linked(sent_ms)
        if not self._ready.done():
            self._ready.set_result(None)

    async def _create_base(self) -> None:
        names = self._layout.base[1:].split("/")
        bases = ["/" + "/".join(names[:count]) for count in range(1, len(names) + 1)]
        for node in (*bases, self._layout.revisions):
            try:
                await self._answer(Create2(node, b"", self._acl, 0))
            except NodeExistsError:
                continue

    async def get(self, path: str) -> Value | None:
        """Return the value at `path`."""
        read = await self._read(self._layout.value_node(path))
        return None if read is None else Value(read[0], self._stat(path, read[1]))

    async def get_children(self, path: str) -> list[str]:
        """Return the names directly below `path`, sorted."""
        return names_of(await self._nodes_in(self._layout.folder_node(path)))

    async def _nodes_in(self, node: str) -> list[str]:
        try:
            nodes: list[str] = await self._reads.ask(GetChildren(node, None))
        except NoNodeError:
            return []
        return nodes

    async def put(self, put: Put) -> Stat:
        """Carry out a put, as `MetadataStore.put` does."""
        path, expected = put.path, put.expected_version
        if put.sequential:
            stat = await self._writes.ask(SetData(self._layout.revisions, b"", _ANY))
            path = f"{path}{stat.mzxid:0{DIGITS}d}"
        node = self._layout.value_node(path)
        for _ in range(_TRIES):
            try:
                if expected != NEW:
                    version = _ANY if expected is None else expected
                    stat = await self._writes.ask(SetData(node, put.value, version))
                else:
                    stat = await self._create(path, put)
                return self._stat(path, stat)
            except BadVersionError:
                raise BadVersion(path=path, expected_version=expected) from None
            except NoNodeError:
                if put.expected_version is not None:
                    raise BadVersion(path=path, expected_version=expected, version=NEW) from None
                expected = NEW
            except NodeExistsError:
                if put.expected_version is not None:
                    raise BadVersion(path=path, expected_version=expected) from None
                expected = None
        raise LockBusy(path=path, reason="too many concurrent callers")

    async def _create(self, path: str, put: Put) -> Any:
        """Create a value, and the folders above it. Raises `NodeExistsError`."""
        if put.ephemeral and await self._has_values(self._layout.folder_node(path)):
            raise PathHasChildren(path=path)
        flags = _EPHEMERAL if put.ephemeral else 0
        node = self._layout.value_node(path)
        for _ in range(_TRIES):
            try:
                stat = await self._writes.ask(Create2(node, put.value, self._acl, flags))
            except NoNodeError:
                await self._make_folders(path)
            else:
                return stat
        raise LockBusy(path=path, reason="too many concurrent callers")

    async def _has_values(self, folder: str) -> bool:
        """Return whether there are values in a folder or deeper; empty folders may remain."""
        nodes = await self._nodes_in(folder)
        if not all(node.endswith("%") for node in nodes):
            return True
        return any([await self._has_values(f"{folder}/{node}") for node in nodes])

    async def _make_folders(self, path: str) -> None:
        """Create the folders above `path`. Raises `InvalidRequest` below an ephemeral value."""
        above = [ancestor for ancestor in ancestors(path) if ancestor != ROOT][::-1]
        values = await asyncio.gather(*(self._read(self._layout.value_node(p)) for p in above))
        if any(value is not None and value[1].ephemeralOwner for value in values):
            raise InvalidRequest("invalid_path", path=path, reason="it is below an ephemeral value")
        for folder in map(self._layout.folder_node, above):
            # Many callers may create the same folder at once.
            making = self._making.get(folder)
            if making is None:
                making = asyncio.ensure_future(self._make_folder(folder))
                self._making[folder] = making
            await shared(making)

    async def _make_folder(self, folder: str) -> None:
        try:
            if await self._read(folder) is None:
                # Not queued after waiting writes, which would be refused as long as there is no
                # folder.
                flags = CreateContainer.FLAGS
                await self._answer(CreateContainer(folder, b"", self._acl, flags))
        except (NodeExistsError, NoNodeError):
            return  # another writer interfered: the caller that needs it reads again
        finally:
            del self._making[folder]

    async def delete(self, path: str, expected_version: int | None) -> None:
        """Delete a value, as `MetadataStore.delete` does."""
        node, folder = self._layout.value_node(path), self._layout.folder_node(path)
        value, below = await asyncio.gather(self._read(node), self._read(folder))
        if value is None:
            raise PathNotFound(path=path)
        version = value[1].version
        if expected_version not in (None, version):
            raise BadVersion(path=path, expected_version=expected_version, version=version)
        if below is not None and below[1].numChildren and await self._has_values(folder):
            raise PathHasChildren(path=path)
        try:
            await self._writes.ask(
                Delete(node, _ANY if expected_version is None else expected_version)
            )
        except NoNodeError:
            raise PathNotFound(path=path) from None
        except BadVersionError:
            raise BadVersion(path=path, expected_version=expected_version) from None
        await self._tidy(path)

    async def delete_recursive(self, path: str) -> None:
        """Delete `path` and all below it, children first."""
        await self._delete_in(self._layout.folder_node(path), is_base=path == ROOT)
        if path != ROOT:
            await self._delete_node(self._layout.value_node(path))
            await self._tidy(path)

    async def _delete_in(self, folder: str, *, is_base: bool = False) -> None:
        nodes = [f"{folder}/{name}" for name in await self._nodes_in(folder)]
        folders = [node for node in nodes if node.endswith("%") and node != self._layout.revisions]
        values = [node for node in nodes if not node.endswith("%")]
        await asyncio.gather(*map(self._delete_in, folders))
        await asyncio.gather(*map(self._delete_node, values))
        if not is_base:
            await self._delete_node(folder)

    async def _delete_node(self, node: str) -> bool:
        """Delete a node whatever its version; return whether it is gone."""
        try:
            await self._writes.ask(Delete(node, _ANY))
        except NoNodeError:
            return True
        except NotEmptyError:
            return False
        return True

    async def _tidy(self, path: str) -> None:
        """Delete the empty folders of `path` and above. ZooKeeper would, but later."""
        for above in (path, *ancestors(path)):
            if above == ROOT:
                return
            folder = self._layout.folder_node(above)
            node = await self._read(folder)
            if node is not None and (node[1].numChildren or not await self._delete_node(folder)):
                return

    def _stat(self, path: str, stat: Any) -> Stat:
        owner = stat.ephemeralOwner
        return Stat(
            path,
            stat.version,
            stat.ctime,
            stat.mtime,
            stat.czxid,
            stat.mzxid,
            is_ephemeral=bool(owner),
            created_by_self=bool(owner) and owner == self._session,
        )

    async def _read(self, node: str) -> Any:
        """Return the data and stat of a node, None if it does not exist."""
        try:
            return await self._reads.ask(GetData(node, None))
        except NoNodeError:
            return None

    async def _send_reads(self, requests: list[Any]) -> list[Any]:
        sizes = [0]
        if len(requests) > 1:
            stats = [self._answer(Exists(request.path, None)) for request in requests]
            sizes = list(map(answer_bytes, requests, await asyncio.gather(*stats)))
        answers: list[Any] = []
        while requests:
            count = count_within(sizes)
            answers += await self._answer(MultiRead(requests[:count]))
            requests, sizes = requests[count:], sizes[count:]
        return [answer.error if isinstance(answer, FailedRequest) else answer for answer in answers]

    async def _send_writes(self, requests: list[Any]) -> list[Any]:
        answers: list[Any] = await self._answer(MultiWrite(requests))
        if not any(isinstance(answer, FailedRequest) for answer in answers):
            return answers
        if len(requests) == 1:
            return [answer.error for answer in answers]
        # One was refused, so none was carried out. All are sent at once, in their order.
        alone = [self._send_alone(request) for request in requests]
        return await asyncio.gather(*alone)

    async def _send_alone(self, request: Any) -> Any:
        try:
            (answer,) = await self._answer(MultiWrite([request]))
        except MetadataUnavailable as error:
            return error
        return answer.error if isinstance(answer, FailedRequest) else answer

    async def _answer(self, request: Any) -> Any:
        try:
            return await self._connection.answer(request)
        except (NodeExistsError, NoNodeError):
            raise
        except KazooException as error:
            raise MetadataUnavailable(reason=repr(error)) from error

    async def touch(self) -> None:
        """Let the server answer in the session."""
        await self._answer(GetData(self._layout.base, None))

    async def close(self) -> None:
        """End the session."""
        self._is_closing = True
        for task in self._preparing:
            task.cancel()
        closed = MetadataClosed()
        await asyncio.gather(self._reads.close(closed), self._writes.close(closed))
        await self._connection.close()
