"""Requests to a server, repeated if that is safe (`tms.client.remote.retry`)."""

from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from tms.client.remote.http import Http
from tms.client.remote.retry import may_pass, repeat, was_not_done
from tms.core.errors import InternalError, InvalidRequest
from tms.core.values.caller import ANYBODY, Caller

JSON = "application/json"

Result = TypeVar("Result")


class Calls:
    """The calls of one server's REST interface."""

    def __init__(self, http: Http, retry_for_s: float, shard: int | None = None) -> None:
        """Repeat for `retry_for_s` seconds. Lists and sums cover one `shard`, or all."""
        self.http = http
        self.retry_for_s = retry_for_s
        self._shard = shard

    def listing(self, path: str) -> str:
        """Return the path of a list or a sum, with the shard in its query."""
        if self._shard is None:
            return path
        return f"{path}{'&' if '?' in path else '?'}shard={self._shard}"

    def safely(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str | None = None,
        caller: Caller = ANYBODY,
    ) -> Awaitable[bytes]:
        """Send a request that may be carried out twice; return the answer's body."""
        send = self.http.send
        return self.repeat(may_pass, send, method, path, body, content_type, caller)

    def once(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str | None = None,
        caller: Caller = ANYBODY,
    ) -> Awaitable[bytes]:
        """Send a request that must not be carried out twice; return the answer's body."""
        send = self.http.send
        return self.repeat(was_not_done, send, method, path, body, content_type, caller)

    def repeat(
        self,
        when: Callable[[BaseException], bool],
        function: Callable[..., Awaitable[Result]],
        *arguments: Any,
    ) -> Awaitable[Result]:
        """Call `function`, and again after errors for which `when` is true; return its result."""
        return repeat(partial(function, *arguments), when=when, for_s=self.retry_for_s)


class Remote:
    """A part of what a server offers, over REST."""

    def __init__(self, calls: Calls) -> None:
        """Send requests by `calls`."""
        self._calls = calls

    async def _get(
        self, path: str, decode: Callable[..., Result], *arguments: Any, caller: Caller = ANYBODY
    ) -> Result:
        """Return the answer of a GET, decoded by `decode` with `arguments`."""
        answer = await self._calls.safely("GET", path, caller=caller)
        with of_the_server():
            return decode(answer, *arguments)


class _OfTheServer:
    """Blames the server, not the caller, for an answer that cannot be understood."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: object, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, InvalidRequest):
            raise InternalError(**error.detail) from None


_OF_THE_SERVER = _OfTheServer()


def of_the_server() -> _OfTheServer:
    """Return a context that blames the server for an answer that cannot be understood."""
    return _OF_THE_SERVER
