"""The interface of transactions if another system manages them: it refuses every call."""

from collections.abc import Callable
from typing import Any

from tms.core.errors import TransactionsElsewhere


class TransactionsOfOthers:
    """Refuses each call of `tms.core.services.transactions.AsyncTransactions`."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a coroutine function that raises `TransactionsElsewhere`."""
        if name.startswith("_"):
            raise AttributeError(name)

        async def refuse(*_: object, **__: object) -> Any:
            raise TransactionsElsewhere

        return refuse
