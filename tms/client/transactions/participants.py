"""The participants of a transaction other than messages, and the order of their calls.

The verbs and their order are those of Tephra's `TransactionAware`;
`tms.client.transactions.async_transaction` calls them.
"""

from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Protocol

import anyio.to_thread

from tms.core.values.transaction import Transaction

Invoke = Callable[..., Awaitable[Any]]
"""Calls a participant's method with arguments; returns its result or raises its error."""


class TransactionAware(Protocol):
    """A participant: its work is kept if and only if the transaction commits.

    Methods may be plain or coroutine functions. Both may block: `tms.Client` calls plain methods in
    the thread that uses it, and `tms.aio` in a thread of a pool. A participant is in one
    transaction at a time, and may be in another afterwards.
    """

    @property
    def name(self) -> str:
        """Its name in notes and logs."""
        ...

    def start(self, tx: Transaction, /) -> Awaitable[None] | None:
        """Begin: all work from now on belongs to `tx`."""
        ...

    def update(self, tx: Transaction, /) -> Awaitable[None] | None:
        """Continue under the new write pointer of a checkpoint."""
        ...

    def changes(self) -> Awaitable[Iterable[bytes]] | Iterable[bytes]:
        """Return the keys of its changes: two transactions that share a key conflict.

        Called once, when the transaction is about to be committed.
        """
        ...

    def persist(self) -> Awaitable[None] | None:
        """Make the work durable, such that it can still be undone.

        Called before the commit, after `changes`, and before each checkpoint.
        """
        ...

    def post_commit(self) -> Awaitable[None] | None:
        """Finish: the transaction is committed, even if this fails."""
        ...

    def rollback(self) -> Awaitable[None] | None:
        """Undo the work, persisted or not; raise if that fails.

        Called at most once for each transaction, and never after `post_commit`.
        """
        ...


async def invoke_in_loop(method: Callable[..., Any], *arguments: Any) -> Any:
    """Call a method from a coroutine; one that may block, in a thread of a pool."""
    if iscoroutinefunction(method):
        return await method(*arguments)
    result = await anyio.to_thread.run_sync(method, *arguments)
    return await result if isawaitable(result) else result
