"""The transaction manager over REST, in JSON.

Calls that are repeated after any failure. `can_commit`, `abort`, `invalidate` and the truncations
do the same when done twice; if the lost attempt ended the transaction, the call succeeds. A
repeated `checkpoint` leaves a write pointer under which nothing is written, and a repeated `start`
a transaction that nobody uses and that times out: both are harmless. But with an owner, `start` is
repeated only if it may replace the lost one (`IfOpen.FENCE`, `IfOpen.JOIN`): otherwise it would
find the owner busy with that. `tms.client.transactions.commit_outcome` repeats `commit`.
"""

from collections.abc import Collection
from urllib.parse import urlencode

from tms.client.remote.calls import JSON, Calls, Remote, of_the_server
from tms.client.remote.retry import may_pass, was_not_done
from tms.core.errors import InvalidRequest, TransactionNotInProgress
from tms.core.services.commits import NOTHING, CommitRequest
from tms.core.services.transactions import (
    IfOpen,
    StartRequest,
    TransactionInfo,
    TransactionStatus,
    check_owner,
    check_transaction_id,
)
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.owners import OWNERS_LISTED, OwnerInfo
from tms.core.values.transaction import Transaction
from tms.wire import json_transactions as bodies
from tms.wire.json_reports import decode_info, decode_infos, decode_owners, decode_size
from tms.wire.transaction_codec import decode_transaction

_PATH = "v1/transactions"
_ENDED = (TransactionStatus.ABORTED, TransactionStatus.INVALID)


def _home(request: StartRequest) -> str:
    """Return the query that names the home of a transaction, if it is not the default one."""
    home = {"namespace": request.namespace} if request.namespace != "default" else {}
    if request.topic is not None:
        home["topic"] = request.topic
    return f"?{urlencode(home)}" if home else ""


class RemoteTransactions(Remote):
    """The transactions of a server, as `tms.core.services.transactions.AsyncTransactions`."""

    async def start(self, request: StartRequest, *, caller: Caller = ANYBODY) -> Transaction:
        """Start a transaction. Raises as `Transactions.start`."""
        check_owner(request.owner, request.sequence, request.origin)
        is_repeatable = request.owner is None or request.if_open is not IfOpen.REFUSE
        send = self._calls.safely if is_repeatable else self._calls.once
        body = bodies.encode_start(request)
        home = f"{_PATH}{_home(request)}"
        try:
            answer = await send("POST", home, body, JSON, caller)
        except InvalidRequest as error:
            if error.problem.code != "unknown_query_parameter":
                raise
            answer = await send("POST", _PATH, body, JSON, caller)  # a server without shards
        with of_the_server():
            started = bodies.decode_started(answer)
        self._calls.http.same_leader(_path(started.transaction_id), home)
        return started

    async def transaction(self, transaction_id: int, *, caller: Caller = ANYBODY) -> Transaction:
        """Return the snapshot of a transaction in progress."""
        info, raw = await self._get(_path(transaction_id), decode_info, caller=caller)
        if raw is None:
            raise TransactionNotInProgress(transaction_id=transaction_id, status=info.status.value)
        with of_the_server():
            return decode_transaction(raw)

    async def info(self, transaction_id: int, *, caller: Caller = ANYBODY) -> TransactionInfo:
        """Return the state of a transaction. Raises `TransactionUnknown`."""
        path = f"{_path(transaction_id)}?codec=false"
        return (await self._get(path, decode_info, caller=caller))[0]

    async def can_commit(
        self, transaction_id: int, changes: Collection[bytes], *, caller: Caller = ANYBODY
    ) -> None:
        """Announce the changes of a transaction. Raises `TransactionConflict`, `TooLarge`."""
        body = bodies.encode_changes(sorted(changes))
        path = f"{_path(transaction_id)}/can-commit"
        await self._calls.safely("POST", path, body, JSON, caller)

    async def commit(
        self,
        transaction_id: int,
        request: CommitRequest = NOTHING,
        *,
        caller: Caller = ANYBODY,
    ) -> None:
        """Commit, in a single attempt. Raises as `Transactions.commit`, and `OutcomeUnknown`."""
        body = b"" if request == NOTHING else bodies.encode_commit(request)
        path = f"{_path(transaction_id)}/commit"
        await self._calls.http.send("POST", path, body, JSON, caller)

    async def abort(self, transaction_id: int, *, caller: Caller = ANYBODY) -> TransactionStatus:
        """End a transaction whose writes have all been undone; return its status."""
        ended = await self._end(transaction_id, "abort", caller)
        return ended if isinstance(ended, TransactionStatus) else bodies.decode_ended(ended)

    async def invalidate(self, transaction_id: int, *, caller: Caller = ANYBODY) -> None:
        """End a transaction whose writes could not be undone."""
        await self._end(transaction_id, "invalidate", caller)

    async def _end(
        self, transaction_id: int, verb: str, caller: Caller
    ) -> bytes | TransactionStatus:
        """Return the answer, or the status in which an unanswered attempt ended the transaction."""
        attempts = _Attempts(self._calls, f"{_path(transaction_id)}/{verb}", caller)
        try:
            return await self._calls.repeat(may_pass, attempts.send)
        except TransactionNotInProgress as error:
            status = error.detail.get("status")
            if attempts.were_lost and status in _ENDED:
                return TransactionStatus(str(status))
            raise

    async def checkpoint(self, transaction_id: int, *, caller: Caller = ANYBODY) -> Transaction:
        """Give a transaction a new write pointer. Raises `TooLarge` (too_many_checkpoints)."""
        path = f"{_path(transaction_id)}/checkpoint"
        answer = await self._calls.safely("POST", path, caller=caller)
        with of_the_server():
            return bodies.decode_started(answer)

    async def in_progress(self) -> list[TransactionInfo]:
        """Return the transactions in progress, oldest first."""
        return await self._list("status=in_progress")

    async def invalid(self, limit: int | None = None) -> list[TransactionInfo]:
        """Return the invalid transactions, at most `limit`, oldest first."""
        return await self._list("status=invalid" + ("" if limit is None else f"&limit={limit}"))

    async def _list(self, query: str) -> list[TransactionInfo]:
        return await self._get(self._calls.listing(f"{_PATH}?{query}"), decode_infos)

    async def invalid_count(self) -> int:
        """Return how many write pointers are in the invalid list."""
        return await self._get(self._calls.listing(f"{_PATH}/invalid/size"), decode_size)

    async def truncate_invalid_ids(self, ids: Collection[int]) -> int:
        """Remove write pointers from the invalid list; return how many were on it."""
        return await self._truncate(bodies.encode_truncation(ids=sorted(ids)))

    async def truncate_invalid_before(self, time_ms: int) -> int:
        """Remove those of transactions that started before a time. Raises `InvalidTruncateTime`."""
        return await self._truncate(bodies.encode_truncation(before_ms=time_ms))

    async def _truncate(self, body: bytes) -> int:
        path = self._calls.listing(f"{_PATH}/invalid/truncate")
        answer = await self._calls.safely("POST", path, body, JSON)
        return bodies.decode_truncated(answer)

    async def owners(
        self, limit: int = OWNERS_LISTED, *, principal: str | None = None
    ) -> list[OwnerInfo]:
        """Return the owners that are remembered, oldest commit first."""
        asked = {"limit": limit, "principal": principal}
        query = urlencode({name: value for name, value in asked.items() if value is not None})
        path = self._calls.listing(f"{_PATH}/owners{query and '?'}{query}")
        return await self._get(path, decode_owners)

    async def forget_owner(self, owner: str, *, caller: Caller = ANYBODY) -> None:
        """Forget an owner. Raises `OwnerNotFound`, `OwnerBusy`, `NotPermitted`."""
        path = self._calls.listing(f"{_PATH}/owners?{urlencode({'owner': owner})}")
        await self._calls.once("DELETE", path, caller=caller)

    async def snapshot(self) -> bytes:
        """Return the whole state."""
        return await self._calls.safely("GET", f"{_PATH}/state")


class _Attempts:
    """A request, and whether one of its attempts got no answer."""

    def __init__(self, calls: Calls, path: str, caller: Caller) -> None:
        self._http = calls.http
        self._path = path
        self._caller = caller
        self.were_lost = False

    async def send(self) -> bytes:
        try:
            return await self._http.send("POST", self._path, caller=self._caller)
        except Exception as error:
            self.were_lost |= may_pass(error) and not was_not_done(error)
            raise


def _path(transaction_id: int) -> str:
    return f"{_PATH}/{check_transaction_id(transaction_id)}"
