"""Transactions over shards: each is in one, which its id says; lists and sums are of all."""

from collections.abc import Collection, Sequence
from heapq import merge
from itertools import islice

from tms.core.caller import ANYBODY, Caller
from tms.core.commits import NOTHING, CommitRequest
from tms.core.errors import OwnerNotFound
from tms.core.owners import OWNERS_LISTED, OWNERS_LISTED_MAX, OwnerInfo
from tms.core.shards import Sharding
from tms.core.transaction import Transaction
from tms.core.transactions import (
    AsyncTransactions,
    StartRequest,
    TransactionInfo,
    TransactionStatus,
)
from tms.sharding.whereabouts import Whereabouts


class ShardedTransactions(Whereabouts[AsyncTransactions]):
    """The transactions of all shards of one store. Fulfils `AsyncTransactions`."""

    def __init__(
        self,
        sharding: Sharding,
        services: Sequence[AsyncTransactions],
        listed: Sequence[AsyncTransactions],
    ) -> None:
        """Have the services, and those by which transactions are listed and counted."""
        super().__init__(sharding, services)
        self._listed = listed

    def without(self, missing: Collection[int]) -> "ShardedTransactions":
        """Return the same, with lists and sums that leave some shards out."""
        listed = [self._listed[shard] for shard in range(len(self._listed)) if shard not in missing]
        return ShardedTransactions(self._sharding, self._services, listed)

    async def start(self, request: StartRequest, *, caller: Caller = ANYBODY) -> Transaction:
        """Start a transaction at its home."""
        home = self._sharding.home(request.namespace, request.topic)
        return await self._services[home].start(request, caller=caller)

    async def transaction(self, transaction_id: int, *, caller: Caller = ANYBODY) -> Transaction:
        """Return the snapshot of a transaction in progress."""
        service = self._with_transaction(transaction_id)
        return await service.transaction(transaction_id, caller=caller)

    async def info(self, transaction_id: int, *, caller: Caller = ANYBODY) -> TransactionInfo:
        """Return where a transaction stands."""
        return await self._with_transaction(transaction_id).info(transaction_id, caller=caller)

    async def can_commit(
        self, transaction_id: int, changes: Collection[bytes], *, caller: Caller = ANYBODY
    ) -> None:
        """Announce what it changed; others of its shard are compared."""
        service = self._with_transaction(transaction_id)
        await service.can_commit(transaction_id, changes, caller=caller)

    async def commit(
        self,
        transaction_id: int,
        request: CommitRequest = NOTHING,
        *,
        caller: Caller = ANYBODY,
    ) -> None:
        """Commit it. Raises `OtherShard` besides, if it carries what is not of its shard."""
        with self._with_topics(transaction_id, request.topics):
            service = self._with_transaction(transaction_id)
            await service.commit(transaction_id, request, caller=caller)

    async def abort(self, transaction_id: int, *, caller: Caller = ANYBODY) -> TransactionStatus:
        """End it; all that it wrote has been undone. Return what it is now."""
        return await self._with_transaction(transaction_id).abort(transaction_id, caller=caller)

    async def invalidate(self, transaction_id: int, *, caller: Caller = ANYBODY) -> None:
        """End it where what it wrote could not be undone."""
        await self._with_transaction(transaction_id).invalidate(transaction_id, caller=caller)

    async def checkpoint(self, transaction_id: int, *, caller: Caller = ANYBODY) -> Transaction:
        """Return it with a new write pointer."""
        service = self._with_transaction(transaction_id)
        return await service.checkpoint(transaction_id, caller=caller)

    async def in_progress(self) -> list[TransactionInfo]:
        """Return the transactions in progress of all shards, oldest first."""
        lists = [await each.in_progress() for each in self._listed]
        return list(merge(*lists, key=lambda info: info.transaction_id))

    async def invalid(self, limit: int | None = None) -> list[TransactionInfo]:
        """Return the invalid transactions of all shards, at most `limit`, oldest first."""
        lists = [await each.invalid(limit) for each in self._listed]
        return list(islice(merge(*lists, key=lambda info: info.transaction_id), limit))

    async def invalid_count(self) -> int:
        """Return how many write pointers are in the invalid lists."""
        return sum([await each.invalid_count() for each in self._listed])

    async def truncate_invalid_ids(self, ids: Collection[int]) -> int:
        """Take write pointers off the lists; return how many were on one.

        If a shard fails, those before it have done their part.
        """
        return sum([await each.truncate_invalid_ids(ids) for each in self._listed])

    async def truncate_invalid_before(self, time_ms: int) -> int:
        """Take those off that started before a time; return how many. Fails as the ids."""
        return sum([await each.truncate_invalid_before(time_ms) for each in self._listed])

    async def owners(
        self, limit: int = OWNERS_LISTED, *, principal: str | None = None
    ) -> list[OwnerInfo]:
        """Return the owners that shards remember, at most `limit`, oldest commit first.

        An owner that has committed in several shards is there for each.
        """
        lists = [await each.owners(limit, principal=principal) for each in self._listed]
        oldest = merge(*lists, key=lambda owner: owner.committed_ms)
        return list(islice(oldest, min(limit, OWNERS_LISTED_MAX)))

    async def forget_owner(self, owner: str, *, caller: Caller = ANYBODY) -> None:
        """Forget an owner in each shard that remembers it."""
        refused: list[OwnerNotFound] = []
        for service in self._listed:
            try:
                await service.forget_owner(owner, caller=caller)
            except OwnerNotFound as error:
                refused.append(error)
        if len(refused) == len(self._listed):
            raise refused[0]

    async def snapshot(self) -> bytes:
        """Return the state of the only shard. Raises `InvalidRequest` (shard_required) besides."""
        return await self._only.snapshot()
