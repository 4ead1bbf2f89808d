"""Transactions over shards: lists and sums. Each transaction is in the shard that its id says."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from heapq import merge
from itertools import islice

from tms.core.errors import InvalidRequest, OutcomeUnknown, OwnerNotFound, Unavailable
from tms.core.services.transactions import AsyncTransactions, TransactionInfo
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.owners import OWNERS_LISTED, OWNERS_LISTED_MAX, OwnerInfo


class ShardedTransactions:
    """The part of `AsyncTransactions` that belongs to no single shard."""

    def __init__(self, listed: Sequence[AsyncTransactions]) -> None:
        """Use `listed` to list and count transactions."""
        self._listed = listed

    def without(self, missing: Collection[int]) -> "ShardedTransactions":
        """Return the same without the `missing` shards in lists and sums."""
        listed = [self._listed[shard] for shard in range(len(self._listed)) if shard not in missing]
        return ShardedTransactions(listed)

    async def in_progress(self) -> list[TransactionInfo]:
        """Return the transactions in progress of all shards, oldest first."""
        lists = [await each.in_progress() for each in self._listed]
        return list(merge(*lists, key=lambda info: info.transaction_id))

    async def invalid(self, limit: int | None = None) -> list[TransactionInfo]:
        """Return the invalid transactions of all shards, at most `limit`, oldest first."""
        lists = [await each.invalid(limit) for each in self._listed]
        return list(islice(merge(*lists, key=lambda info: info.transaction_id), limit))

    async def invalid_count(self) -> int:
        """Return the number of write pointers on the invalid lists."""
        return sum([await each.invalid_count() for each in self._listed])

    async def truncate_invalid_ids(self, ids: Collection[int]) -> int:
        """Take write pointers off the lists; return how many were on one.

        If a shard fails, the change has been made in the shards before it.
        """
        return await self._change(lambda each: each.truncate_invalid_ids(ids))

    async def truncate_invalid_before(self, time_ms: int) -> int:
        """Take transactions off that started before a time; return how many. Fails as above."""
        return await self._change(lambda each: each.truncate_invalid_before(time_ms))

    async def owners(
        self, limit: int = OWNERS_LISTED, *, principal: str | None = None
    ) -> list[OwnerInfo]:
        """Return the owners that shards remember, at most `limit`, oldest commit first.

        An owner that has committed in several shards is listed for each.
        """
        lists = [await each.owners(limit, principal=principal) for each in self._listed]
        oldest = merge(*lists, key=lambda owner: owner.committed_ms)
        return list(islice(oldest, min(limit, OWNERS_LISTED_MAX)))

    async def forget_owner(self, owner: str, *, caller: Caller = ANYBODY) -> None:
        """Forget an owner in each shard that remembers it. Fails as above."""

        async def forget(service: AsyncTransactions) -> int:
            try:
                await service.forget_owner(owner, caller=caller)
            except OwnerNotFound:
                return 0
            return 1

        if not await self._change(forget):
            raise OwnerNotFound(owner=owner)

    async def _change(self, change: Callable[[AsyncTransactions], Awaitable[int]]) -> int:
        """Change one shard after another; return how much was changed in all of them.

        Raises `NoLeader` before anything is changed, and `OutcomeUnknown` if something is.
        """
        list(self._listed)  # raises `NoLeader`
        changed = 0
        try:
            for each in self._listed:
                changed += await change(each)
        except Unavailable as error:
            # Repeated, the change would answer as if there had been nothing to do.
            raise OutcomeUnknown(**error.detail) if changed else error from None
        return changed

    async def snapshot(self) -> bytes:
        """Raise `InvalidRequest` (shard_required): each shard has a state of its own."""
        raise InvalidRequest("shard_required", shards=len(self._listed))
