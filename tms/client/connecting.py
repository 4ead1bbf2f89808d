"""Supports both `await connect(…)` and `async with connect(…)`."""

from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec

from tms.client.async_client import AsyncClient, connect

Arguments = ParamSpec("Arguments")
Opening = Coroutine[Any, Any, AsyncClient]


class Connecting(Opening):
    """A coroutine that returns a client, and a context manager that closes it."""

    def __init__(self, opening: Opening) -> None:
        """Open nothing yet."""
        self._opening = opening
        self._client: AsyncClient | None = None

    def send(self, value: Any) -> Any:
        """Run the coroutine, as event loops do."""
        return self._opening.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error in the coroutine."""
        return self._opening.throw(*error)

    def close(self) -> None:
        """Open nothing."""
        self._opening.close()

    def __await__(self) -> Generator[Any, Any, AsyncClient]:
        """Return the client."""
        return self._opening.__await__()

    async def __aenter__(self) -> AsyncClient:
        """Return the client."""
        self._client = await self._opening
        return self._client

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the client."""
        if self._client is not None:
            await self._client.close()


def _connecting(opening: Callable[Arguments, Opening]) -> Callable[Arguments, Connecting]:
    @wraps(opening)
    def connecting(*arguments: Arguments.args, **named: Arguments.kwargs) -> Connecting:
        return Connecting(opening(*arguments, **named))

    return connecting


connect_async = _connecting(connect)
