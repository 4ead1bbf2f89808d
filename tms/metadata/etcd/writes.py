"""Each write as one transaction of etcd's, and what its answer means. Pure.

    key of a path   := PREFIX path                 the value's bytes, as they are
    below a path    := the keys that begin with PREFIX path "/"
    revisions       := PREFIX "%"                  written to get a new number
    session         := PREFIX "%" lease in hex     written to by each connection of a session

A version is etcd's minus one. An ephemeral value is attached to the session's lease. etcd keeps no
times, so those of a stat are 0. The conditions of a write (a version, no children, nothing
ephemeral above) are compared in the same transaction; if one fails, the transaction reads the
values that show why.

Several writes are one transaction with each as a transaction inside. etcd compares for all of them
before it carries out any, and all get the same revision; so writes that may depend on each other,
of a path and of one above or below it, never share a request.

The outer transaction compares the revision of the session's key with that of its connection. So
late writes of a connection that was given up never overwrite later writes of the session, and are
not carried out after the session has ended. (ZooKeeper guarantees the same when a session moves.)
DO NOT CHANGE the keys: stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from aetcd import rpc

from tms.core.errors import BadVersion, InvalidRequest, PathHasChildren, PathNotFound, TmsError
from tms.metadata.interface import NEW, Stat
from tms.metadata.paths import ROOT, ancestors
from tms.metadata.tree import Put

_EQUAL, _GREATER = 0, 1
_VERSION, _CREATED, _MODIFIED, _LEASE = 0, 1, 2, 4
_FIELDS = {
    _VERSION: "version",
    _CREATED: "create_revision",
    _MODIFIED: "mod_revision",
    _LEASE: "lease",
}
_NEVER = -1
WRITES_MAX = 96
"""The most writes of one request: etcd accepts 128 by default, and inner ones, which deep paths
add, count too.
"""
DEPTH_TOGETHER_MAX = 20
DEPTH_MAX = 100
WRITE_BYTES_MAX = 1_200_000
"""The most bytes of one request: etcd accepts 1.5 MiB by default."""
_REQUEST_BYTES = 512
TWICE_BYTES_MAX = 500_000
"""The largest value that is put unconditionally: such a request contains it twice."""


class Keys:
    """The keys of a store."""

    def __init__(self, base: str) -> None:
        self._base = base
        self.revisions = f"{base}%".encode()

    def of_session(self, lease: int) -> bytes:
        """Return the key that the connections of a session write to."""
        return f"{self._base}%{lease:x}".encode()

    def of(self, path: str) -> bytes:
        """Return the key of a path that is not the root."""
        return f"{self._base}{path}".encode()

    def below(self, path: str) -> tuple[bytes, bytes]:
        """Return the first key that may be below a path, and the first key after those."""
        top = self._base if path == ROOT else f"{self._base}{path}"
        return f"{top}/".encode(), f"{top}0".encode()  # "0" is the character after "/"

    def path_of(self, key: bytes) -> str:
        """Return the path of a key."""
        return key.decode()[len(self._base) :]


@dataclass(frozen=True)
class EtcdWrite:
    """One write: its transaction and its path."""

    path: str
    transaction: Any
    size: int = _REQUEST_BYTES

    @cached_property
    def above(self) -> frozenset[str]:
        """The paths above."""
        return frozenset(ancestors(self.path))


def put_of(keys: Keys, put: Put, lease: int) -> EtcdWrite:
    """Return the write of a put whose path is already complete, if it was sequential."""
    path, key, expected = put.path, keys.of(put.path), put.expected_version
    depth = path.count("/")
    if depth > DEPTH_MAX:
        raise InvalidRequest("invalid_path", path=path, depth_max=DEPTH_MAX)
    if expected == NEW:
        transaction = _creation(keys, put, lease)
    else:
        kept = _put(key, put.value, ignore_lease=True)
        is_there = (
            _compare(_VERSION, _GREATER, key, 0)
            if expected is None
            else _compare(_VERSION, _EQUAL, key, expected + 1)
        )
        creates = expected is None and len(put.value) <= TWICE_BYTES_MAX
        otherwise = (
            rpc.RequestOp(request_txn=_creation(keys, put, lease)) if creates else _look(key)
        )
        transaction = rpc.TxnRequest(
            compare=[is_there], success=[kept, _look(key)], failure=[otherwise]
        )
    size = _REQUEST_BYTES + 2 * len(put.value) + 2 * depth * len(key)
    return EtcdWrite(path, transaction, size)


def _creation(keys: Keys, put: Put, lease: int) -> Any:
    key = keys.of(put.path)
    above = [keys.of(path) for path in ancestors(put.path) if path != ROOT]
    compare = [_compare(_VERSION, _EQUAL, key, 0)]
    compare += [_compare(_LEASE, _EQUAL, each, 0) for each in above]
    if put.ephemeral:
        start, stop = keys.below(put.path)
        compare.append(_compare(_CREATED, _EQUAL, start, 0, stop))
    created = _put(key, put.value, lease=lease if put.ephemeral else 0)
    reasons = [_look(key), *map(_look, above)]
    return rpc.TxnRequest(compare=compare, success=[created, _look(key)], failure=reasons)


def delete_of(keys: Keys, path: str, expected: int | None) -> EtcdWrite:
    """Return the write that deletes a value."""
    key, (start, stop) = keys.of(path), keys.below(path)
    if expected is None:
        is_there = _compare(_VERSION, _GREATER, key, 0)
    else:
        version = _NEVER if expected == NEW else expected + 1
        is_there = _compare(_VERSION, _EQUAL, key, version)
    transaction = rpc.TxnRequest(
        compare=[is_there, _compare(_CREATED, _EQUAL, start, 0, stop)],
        success=[rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key))],
        failure=[_look(key)],
    )
    return EtcdWrite(path, transaction)


def delete_all_of(keys: Keys, path: str) -> Any:
    """Return the transaction that deletes a path and all below it."""
    start, stop = keys.below(path)
    ranges = [rpc.DeleteRangeRequest(key=start, range_end=stop)]
    if path != ROOT:
        ranges.append(rpc.DeleteRangeRequest(key=keys.of(path)))
    return rpc.TxnRequest(success=[rpc.RequestOp(request_delete_range=each) for each in ranges])


def revision_of(keys: Keys) -> EtcdWrite:
    """Return the write whose only effect is a revision."""
    return EtcdWrite("%", rpc.TxnRequest(success=[_put(keys.revisions, b"")]))


def stat_of(path: str, kv: Any, lease: int) -> Stat:
    """Return the stat of a value from etcd, as the session with `lease` sees it."""
    return Stat(
        path,
        kv.version - 1,
        0,
        0,
        kv.create_revision,
        kv.mod_revision,
        is_ephemeral=bool(kv.lease),
        created_by_self=bool(kv.lease) and kv.lease == lease,
    )


def stat_of_put(put: Put, answer: Any, lease: int) -> Stat:
    """Return the stat after a put. Raises the error if it was refused."""
    creates = put.expected_version == NEW
    if not answer.succeeded and answer.responses[0].HasField("response_txn"):
        creates, answer = True, answer.responses[0].response_txn
    if not answer.succeeded:
        read = [response.response_range.kvs for response in answer.responses]
        raise _refusal_of_put(put, read, creates=creates)
    return stat_of(put.path, answer.responses[1].response_range.kvs[0], lease)


def _refusal_of_put(put: Put, read: Sequence[Any], *, creates: bool) -> TmsError:
    existing, *above = read
    if existing or not creates:
        version = existing[0].version - 1 if existing else NEW
        return BadVersion(path=put.path, expected_version=put.expected_version, version=version)
    if any(kvs and kvs[0].lease for kvs in above):
        return InvalidRequest(
            "invalid_path", path=put.path, reason="it is below an ephemeral value"
        )
    return PathHasChildren(path=put.path)


def check_deleted(path: str, expected: int | None, answer: Any) -> None:
    """Raise the error if a delete was refused."""
    if answer.succeeded:
        return
    existing = answer.responses[0].response_range.kvs
    if not existing:
        raise PathNotFound(path=path)
    version = existing[0].version - 1
    if expected not in (None, version):
        raise BadVersion(path=path, expected_version=expected, version=version)
    raise PathHasChildren(path=path)


def count_that_fit(waiting: Sequence[EtcdWrite]) -> int:
    """Return how many of these, from the first on, fit into one request."""
    paths: set[str] = set()
    above: set[str] = set()
    size = 0
    for write in waiting[:WRITES_MAX]:
        size += write.size
        is_near = write.path in paths or write.path in above or not paths.isdisjoint(write.above)
        is_deep = len(write.above) > DEPTH_TOGETHER_MAX
        if paths and (size > WRITE_BYTES_MAX or is_near or is_deep):
            break
        paths.add(write.path)
        above |= write.above
        if is_deep:
            break
    return len(paths)


def connect_of(keys: Keys, lease: int) -> Any:
    """Return the transaction after which writes of earlier connections are refused."""
    return rpc.TxnRequest(success=[_put(keys.of_session(lease), b"", lease=lease)])


def together(transactions: Sequence[Any], session: bytes, revision: int) -> Any:
    """Join writes of the connection that wrote the session's key at `revision`."""
    return rpc.TxnRequest(
        compare=[_compare(_MODIFIED, _EQUAL, session, revision)],
        success=[rpc.RequestOp(request_txn=transaction) for transaction in transactions],
    )


def _compare(target: int, result: int, key: bytes, value: int, stop: bytes = b"") -> Any:
    compare = rpc.Compare(target=target, result=result, key=key, range_end=stop)
    setattr(compare, _FIELDS[target], value)
    return compare


def _put(key: bytes, value: bytes, *, lease: int = 0, ignore_lease: bool = False) -> Any:
    put = rpc.PutRequest(key=key, value=value, lease=lease, ignore_lease=ignore_lease)
    return rpc.RequestOp(request_put=put)


def _look(key: bytes) -> Any:
    return rpc.RequestOp(request_range=rpc.RangeRequest(key=key, keys_only=True))
