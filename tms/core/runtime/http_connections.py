"""HTTP connections that fail only as httpx says that they do, whatever is below them.

httpcore knows the errors that sockets usually have. uvloop, anyio and ssl raise others where a
connection ends at the wrong moment: `AttributeError` for the name of a socket that is gone,
`RuntimeError` for a transport that is closed, `ssl.SSLError` while it closes. They would come out
of any later request, because the pool looks at all its connections for each of them.

1. An exception while a connection is made is a `httpx.ConnectError`: nothing was sent.
2. While something is sent or received it is a `httpx.WriteError` or `httpx.ReadError`.
3. A connection of which nothing can be found out is taken for broken, and is not used again.
4. Closing a connection raises nothing: it is given up in any case.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpcore
import httpx

_HTTPCORES = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
)
"""The errors that httpx knows."""

_log = logging.getLogger(__name__)


def guard(client: httpx.AsyncClient) -> httpx.AsyncClient:
    """Return `client`, with connections that fail as above; also those by proxies."""
    transports = [client._transport, *client._mounts.values()]  # noqa: SLF001  httpx has no other way
    for transport in transports:
        if isinstance(transport, httpx.AsyncHTTPTransport):
            pool: Any = transport._pool  # noqa: SLF001  as above
            pool._network_backend = _Backend(pool._network_backend)  # noqa: SLF001  as above
    return client


async def close_quietly(closing: httpx.AsyncClient | httpx.Response) -> None:
    """Close an answer, or all connections. An error there is only logged: it changes nothing."""
    try:
        await closing.aclose()
    except Exception as error:  # whatever it is, it is given up
        _log.info("a connection was not closed cleanly: %s", reason_of(error))


def reason_of(error: BaseException) -> str:
    """Return what an exception says, or its type if it says nothing."""
    return str(error) or type(error).__name__


@contextmanager
def _raised_as(kind: type[httpcore.NetworkError]) -> Iterator[None]:
    try:
        yield
    except _HTTPCORES:
        raise
    except Exception as error:  # whatever it is, the connection is broken
        raise kind(_said(error)) from error


class _Backend(httpcore.AsyncNetworkBackend):
    """Makes connections."""

    def __init__(self, inner: httpcore.AsyncNetworkBackend) -> None:
        self._inner = inner

    async def connect_tcp(self, *arguments: Any, **named: Any) -> httpcore.AsyncNetworkStream:
        with _raised_as(httpcore.ConnectError):
            return _Stream(await self._inner.connect_tcp(*arguments, **named))

    async def connect_unix_socket(
        self, *arguments: Any, **named: Any
    ) -> httpcore.AsyncNetworkStream:
        with _raised_as(httpcore.ConnectError):
            return _Stream(await self._inner.connect_unix_socket(*arguments, **named))

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class _Stream(httpcore.AsyncNetworkStream):
    """One connection."""

    def __init__(self, inner: httpcore.AsyncNetworkStream) -> None:
        self._inner = inner
        self._broken_by: str | None = None

    async def read(self, *arguments: Any, **named: Any) -> bytes:
        if self._broken_by is not None:  # httpcore reads though writing has failed
            raise httpcore.ReadError(self._broken_by)
        with _raised_as(httpcore.ReadError):
            return await self._inner.read(*arguments, **named)

    async def write(self, *arguments: Any, **named: Any) -> None:
        try:
            await self._inner.write(*arguments, **named)
        except _HTTPCORES:
            raise
        except Exception as error:  # whatever it is, the connection is broken
            self._broken_by = _said(error)
            raise httpcore.WriteError(self._broken_by) from error

    async def aclose(self) -> None:
        try:
            await self._inner.aclose()
        except Exception as error:  # whatever it is, the connection is given up
            _log.info("a connection was not closed cleanly: %s", _said(error))

    async def start_tls(self, *arguments: Any, **named: Any) -> httpcore.AsyncNetworkStream:
        with _raised_as(httpcore.ConnectError):
            return _Stream(await self._inner.start_tls(*arguments, **named))

    def get_extra_info(self, info: str) -> Any:
        try:
            return self._inner.get_extra_info(info)
        except Exception as error:  # whatever it is, the connection is broken
            _log.info("a connection is abandoned: %s", _said(error))
            return True if info == "is_readable" else None


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")
