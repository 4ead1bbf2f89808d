"""A session with etcd, as a metadata store's server (`tms.metadata.remote`).

Writes that wait at the same time go in one transaction, each with its own outcome (`writes.py`),
and so do reads.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import grpc
from aetcd import rpc

from tms.core.errors import BadVersion, LockBusy, MetadataClosed, MetadataUnavailable
from tms.metadata.address import Address
from tms.metadata.batching import Batcher
from tms.metadata.etcd.connection import EtcdConnection, message_of
from tms.metadata.etcd.thread import in_grpc_loop
from tms.metadata.etcd.writes import (
    TWICE_BYTES_MAX,
    EtcdWrite,
    Keys,
    check_deleted,
    count_that_fit,
    delete_all_of,
    delete_of,
    put_of,
    revision_of,
    stat_of,
    stat_of_put,
)
from tms.metadata.interface import NEW, Stat, Value
from tms.metadata.remote import Link
from tms.metadata.tree import DIGITS, Put

_READS_MAX = 64
_TRIES = 20
"""How often other writers may interfere in one call."""
_PAGE = 1000
"""Keys read at once to list the paths below one."""
_ALONE = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)
"""Errors of a batch whose calls may succeed one by one."""


class Etcd:
    """A session with etcd. `tms.metadata.opening` opens it."""

    def __init__(self, address: Address, link: Link) -> None:
        self._keys = Keys(address.base)
        self._connection = EtcdConnection(address, link, self._keys)
        self._reads: Batcher[Any, Any] = Batcher(self._send_reads, _count_of_reads)
        self._writes: Batcher[EtcdWrite, Any] = Batcher(self._send_writes, count_that_fit)

    async def open(self) -> None:
        """Return when the store can be used. Raises `MetadataUnavailable`."""
        await in_grpc_loop(self._connection.open())

    async def get(self, path: str) -> Value | None:
        """Return the value at `path`."""
        answer = await self._reads.ask(rpc.RangeRequest(key=self._keys.of(path)))
        if not answer.kvs:
            return None
        (kv,) = answer.kvs
        return Value(kv.value, stat_of(path, kv, self._connection.lease))

    async def get_children(self, path: str) -> list[str]:
        """Return the names directly below `path`, sorted."""
        prefix, stop = self._keys.below(path)
        names: set[str] = set()
        start = prefix
        while True:
            request = rpc.RangeRequest(key=start, range_end=stop, keys_only=True, limit=_PAGE)
            answer = await self._reads.ask(request)
            name = slash = b""
            for kv in answer.kvs:
                name, slash, _ = kv.key[len(prefix) :].partition(b"/")
                names.add(name.decode())
            if not answer.more:
                return sorted(names)
            # Skip all keys below the last child.
            start = prefix + name + (b"0" if slash else b"\0")

    async def put(self, put: Put) -> Stat:
        """Carry out a put, as `MetadataStore.put` does."""
        if put.sequential:
            answer = await self._writes.ask(revision_of(self._keys))
            number = answer.responses[0].response_put.header.revision
            put = put._replace(path=f"{put.path}{number:0{DIGITS}d}")
        if put.expected_version is not None or len(put.value) <= TWICE_BYTES_MAX:
            return await self._put(put)
        for _ in range(_TRIES):
            for expected in (None, NEW):
                with suppress(BadVersion):
                    return await self._put(put._replace(expected_version=expected))
        raise LockBusy(path=put.path, reason="too many concurrent callers")

    async def _put(self, put: Put) -> Stat:
        lease = self._connection.lease
        if not lease:  # an ephemeral value would stay forever
            raise MetadataUnavailable(reason="the session has ended")
        answer = await self._writes.ask(put_of(self._keys, put, lease))
        return stat_of_put(put, answer, lease)

    async def delete(self, path: str, expected_version: int | None) -> None:
        """Delete a value, as `MetadataStore.delete` does."""
        answer = await self._writes.ask(delete_of(self._keys, path, expected_version))
        check_deleted(path, expected_version, answer)

    async def delete_recursive(self, path: str) -> None:
        """Delete `path` and all below it, at once."""
        await self._write(delete_all_of(self._keys, path))

    async def _send_reads(self, requests: list[Any]) -> list[Any]:
        operations = [rpc.RequestOp(request_range=request) for request in requests]
        try:
            answer = await in_grpc_loop(
                self._connection.transaction(rpc.TxnRequest(success=operations))
            )
        except grpc.RpcError as error:
            raise MetadataUnavailable(reason=message_of(error)) from None
        return [response.response_range for response in answer.responses]

    async def _send_writes(self, writes: list[EtcdWrite]) -> list[Any]:
        transactions = [write.transaction for write in writes]
        try:
            return await in_grpc_loop(self._connection.write(transactions))
        except grpc.RpcError as error:
            if len(writes) == 1 or error.code() not in _ALONE:
                raise MetadataUnavailable(reason=message_of(error)) from None
        alone = (self._write(transaction) for transaction in transactions)
        return await asyncio.gather(*alone, return_exceptions=True)

    async def _write(self, transaction: Any) -> Any:
        try:
            (answer,) = await in_grpc_loop(self._connection.write([transaction]))
        except grpc.RpcError as error:
            raise MetadataUnavailable(reason=message_of(error)) from None
        return answer

    async def touch(self) -> None:
        """Keep the session alive."""
        await in_grpc_loop(self._connection.touch())

    async def close(self) -> None:
        """End the session."""
        closed = MetadataClosed()
        await asyncio.gather(self._reads.close(closed), self._writes.close(closed))
        await in_grpc_loop(self._connection.close())


def _count_of_reads(waiting: Sequence[Any]) -> int:
    return min(len(waiting), _READS_MAX)
