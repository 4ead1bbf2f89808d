"""The connection of a session with etcd: one server at a time, a lease, and a watch of all keys.

A lease is the session: ephemeral values are attached to it, and it ends `session timeout` after it
was last kept alive. After an interruption the watch continues by revision, so that changes in
between are reported when there is a connection again; if etcd has compacted those away, it
continues from now. A connection counts as open when it has both; any failure of either ends it, and
the next server is tried.
"""

import asyncio
import itertools
import logging
import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import grpc
from aetcd import rpc

from tms.core.errors import MetadataUnavailable
from tms.core.runtime.supervision import is_cancelled, supervised
from tms.metadata.address import Address
from tms.metadata.etcd.thread import Home
from tms.metadata.etcd.writes import Keys, connect_of, together
from tms.metadata.interface import Change
from tms.metadata.paths import ROOT
from tms.metadata.remote import Link

_log = logging.getLogger(__name__)

T = TypeVar("T")

_PAUSE_S = 0.1
_PAUSE_S_MAX = 1.0
_ANSWER_SHARE = 1 / 3
"""The share of the session timeout within which answers that keep a session alive must come."""
_CALL_SHARE = 5 / 6
"""The share of the session timeout after which a call is given up, with its connection."""
_CLOSE_S_MAX = 5.0
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_retries", 0),
    # Otherwise a new connection would wait as long as the failed one before it.
    ("grpc.use_local_subchannel_pool", 1),
)


_MADE_ANEW = (
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.DEADLINE_EXCEEDED,
)
"""Errors that end a connection: a token is too old, a lease no longer exists, or a late server may
still carry out a call.
"""


class Broken(Exception):
    """Raised when a connection can no longer be used."""


class EtcdConnection:
    """A session's connection. Created in the session's event loop, used in gRPC's."""

    def __init__(self, address: Address, link: Link, keys: Keys) -> None:
        """Prepare a connection that reports changes of the keys to `link`."""
        self._address = address
        self._link = link
        self._home = Home()
        self._keys = keys
        self._hosts = itertools.cycle(address.hosts)
        self._credentials: Any = None
        self._channel: Any = None
        self._token: tuple[tuple[str, str], ...] = ()
        self._kv: Any = None
        self._leases: Any = None
        self._watching: Any = None
        self._is_dropped = False
        self._next_revision = 0
        self.lease = 0
        """The number of the session, 0 without one."""
        self._revision = 0
        """The revision of the session's key as this connection wrote it."""
        self._running: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._ready = asyncio.Event()
        """Set while the connection is complete, with the lease, the session's key and the watch.
        Until then it carries only the calls that set it up.
        """
        self._reason = "no connection yet"

    @property
    def _answer_s(self) -> float:
        return self._link.watch.timeout_ms / 1000 * _ANSWER_SHARE

    async def open(self) -> None:
        """Return when there is a connection. Raises `MetadataUnavailable`."""
        try:
            self._credentials = _credentials(self._address)
        except OSError as error:
            raise MetadataUnavailable(reason=f"cannot set up TLS: {error}") from None
        self._running = supervised("connecting to etcd", self._run, until=self._closing)
        timeout_s = self._address.session_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await self._ready.wait()
        except TimeoutError:
            raise MetadataUnavailable(reason=self._reason) from None

    async def _run(self) -> None:
        pause_s = _PAUSE_S
        while not self._closing.is_set():
            try:
                await self._connect(next(self._hosts))
                pause_s = _PAUSE_S
                while True:
                    self._tell(await self._read_watch(None))
            except (Broken, grpc.RpcError, TimeoutError, OSError) as error:
                self._reason = message_of(error)
                _log.info("no connection to etcd: %s", self._reason)
            finally:
                self._home.post(self._link.broken)
                await self._disconnect()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._closing.wait()
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)

    async def _connect(self, host: str) -> None:
        if self._credentials is None:
            self._channel = grpc.aio.insecure_channel(host, options=_OPTIONS)
        else:
            self._channel = grpc.aio.secure_channel(host, self._credentials, options=_OPTIONS)
        self._token = ()
        self._is_dropped = False
        if self._address.user is not None:
            request = rpc.AuthenticateRequest(
                name=self._address.user, password=self._address.password or ""
            )
            stub = rpc.AuthStub(self._channel)
            answer = await stub.Authenticate(request, timeout=self._answer_s)
            self._token = (("token", answer.token),)
        self._kv, self._leases = rpc.KVStub(self._channel), rpc.LeaseStub(self._channel)
        sent_ms = self._link.clock.steady_ms()
        if not (self.lease and await self._keep_alive()):
            await self._grant()
        connecting = connect_of(self._keys, self.lease)
        written = await self._kv.Txn(connecting, timeout=self._answer_s, metadata=self._token)
        self._revision = written.header.revision
        await self._skip_compacted()
        await self._watch()
        self._ready.set()
        self._home.post(self._link.linked, sent_ms)

    async def _grant(self) -> None:
        request = rpc.LeaseGrantRequest(TTL=math.ceil(self._address.session_timeout_s))
        granted = await self._leases.LeaseGrant(
            request, timeout=self._answer_s, metadata=self._token
        )
        self.lease = granted.ID
        self._link.watch.timeout_ms = granted.TTL * 1000
        self._next_revision = self._next_revision or granted.header.revision + 1

    async def _keep_alive(self) -> bool:
        """Return whether the lease still exists."""
        request = rpc.LeaseKeepAliveRequest(ID=self.lease)
        call = self._leases.LeaseKeepAlive(
            iter([request]), timeout=self._answer_s, metadata=self._token
        )
        answer = await call.read()
        if answer is grpc.aio.EOF:
            raise Broken("etcd did not answer about the lease")
        call.cancel()
        if answer.TTL > 0:
            return True
        self._expire()
        return False

    def _expire(self) -> None:
        self.lease = 0
        self._home.post(self._link.expired)

    async def _skip_compacted(self) -> None:
        """Continue from now if etcd has compacted the next changes away."""
        request = rpc.RangeRequest(key=self._keys.revisions, revision=self._next_revision - 1)
        try:
            await self._kv.Range(request, timeout=self._answer_s, metadata=self._token)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.OUT_OF_RANGE:
                raise
            request.revision = 0
            now = await self._kv.Range(request, timeout=self._answer_s, metadata=self._token)
            self._next_revision = now.header.revision + 1

    async def _watch(self) -> None:
        start, stop = self._keys.below(ROOT)
        request = rpc.WatchCreateRequest(
            key=start, range_end=stop, start_revision=self._next_revision
        )
        # A server that has lost the others must report that instead of staying silent.
        call_metadata = (*self._token, ("hasleader", "true"))
        self._watching = rpc.WatchStub(self._channel).Watch(metadata=call_metadata)
        await self._watching.write(rpc.WatchRequest(create_request=request))
        await self._read_watch(self._answer_s)

    async def _read_watch(self, timeout_s: float | None) -> Any:
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._watching.read()
        except asyncio.CancelledError:
            if self._is_dropped:
                raise Broken(self._reason) from None
            raise
        if answer is grpc.aio.EOF:
            raise Broken("the watch has ended")
        if answer.compact_revision:
            self._next_revision = answer.header.revision + 1
        if answer.canceled:
            raise Broken(answer.cancel_reason or "the watch was cancelled")
        return answer

    def _tell(self, answer: Any) -> None:
        changes = []
        for event in answer.events:
            if event.type == rpc.Event.DELETE:
                change = Change.DELETED
            else:
                change = Change.CREATED if event.kv.version == 1 else Change.MODIFIED
            changes.append((change, self._keys.path_of(event.kv.key)))
            self._next_revision = event.kv.mod_revision + 1
        self._home.post(self._changed, changes)

    def _changed(self, changes: list[tuple[Change, str]]) -> None:
        for change, path in changes:
            self._link.changed(change, path)

    async def touch(self) -> None:
        """Keep the session alive. Raises `MetadataUnavailable`; then the connection is given up."""
        if not self._ready.is_set():
            raise MetadataUnavailable(reason=self._reason)
        try:
            lives = await self._keep_alive()
        except (Broken, grpc.RpcError, TimeoutError) as error:
            self._drop()
            raise MetadataUnavailable(reason=message_of(error)) from None
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            raise MetadataUnavailable(reason=self._reason) from None
        if not lives:
            self._drop()
            raise MetadataUnavailable(reason="the session has ended")

    def _drop(self) -> None:
        """Let the connection be made again. No more is sent on this one."""
        self._ready.clear()
        if self._watching is not None:
            self._is_dropped = True
            self._watching.cancel()

    async def write(self, transactions: Sequence[Any]) -> list[Any]:
        """Carry out transactions together, over this connection or not at all; return the answers.

        If etcd refuses them because the session has written over another connection since, or no
        longer exists, this connection is given up: it would be refused forever.

        Raises `grpc.RpcError`, `MetadataUnavailable`.
        """
        session = self._keys.of_session(self.lease)
        answer = await self.transaction(together(transactions, session, self._revision))
        if not answer.succeeded:
            self._drop()
            raise MetadataUnavailable(reason="the session has a new connection, or has ended")
        return [response.response_txn for response in answer.responses]

    async def transaction(self, request: Any) -> Any:
        """Return the answer to a transaction. Raises `grpc.RpcError`, `MetadataUnavailable`."""
        if not self._ready.is_set():
            raise MetadataUnavailable(reason=self._reason)
        timeout_s = self._link.watch.timeout_ms / 1000 * _CALL_SHARE
        call = self._kv.Txn(request, timeout=timeout_s, metadata=self._token)
        try:
            return await call
        except asyncio.CancelledError:
            if call.cancelled() and not is_cancelled():
                raise MetadataUnavailable(reason=self._reason) from None
            raise
        except grpc.RpcError as error:
            if error.code() in _MADE_ANEW:
                self._drop()
            raise

    async def _disconnect(self) -> None:
        self._ready.clear()
        self._kv = self._leases = self._watching = None
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    async def close(self) -> None:
        """End the session, if etcd is reached, and the connection."""
        self._closing.set()
        timeout_s = min(self._answer_s, _CLOSE_S_MAX)
        if self.lease and self._leases is not None:
            request = rpc.LeaseRevokeRequest(ID=self.lease)
            revoking = self._leases.LeaseRevoke(request, timeout=timeout_s, metadata=self._token)
            # A task of its own: it is cancelled if the connection ends first.
            await asyncio.wait([asyncio.ensure_future(_ended(revoking))])
        if self._running is None:
            return
        self._drop()
        _, unfinished = await asyncio.wait([self._running], timeout=timeout_s)
        for task in unfinished:
            task.cancel()
            await asyncio.wait([task])


def _credentials(address: Address) -> Any:
    if address.ca is None:
        return None
    files = (address.ca, address.key, address.cert)
    ca, key, cert = (None if name is None else Path(name).read_bytes() for name in files)
    return grpc.ssl_channel_credentials(ca, key, cert)


async def _ended(call: Any) -> None:
    with suppress(Exception):  # whatever it is, the lease expires
        await call


def message_of(error: BaseException) -> str:
    """Return an error's message about its cause."""
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return str(error) or type(error).__name__
