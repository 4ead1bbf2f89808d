"""One server's REST: a request goes out once, an answer or a typed error comes back.

Guarantees that every failure is a `TmsError`: `ServerUnreachable` where no connection was made and
so nothing was sent, `OutcomeUnknown` where the connection broke after that, and otherwise the error
that the answer names. Answers that are not from TMS (a proxy's, another server's) are told by their
status. Nothing is repeated here (`tms.client.remote.retry`), except once with new credentials if
those sent were refused: then nothing was done. A redirect is never followed.
"""

import asyncio
import gzip
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from functools import partial
from math import inf
from typing import Any
from urllib.parse import urlencode

import httpx

from tms.client.remote.access import ANYBODY as ACCESS_OF_ANYBODY
from tms.client.remote.access import Access, loopback_hosts
from tms.client.remote.addresses import Addresses, parse_addresses
from tms.client.remote.error_answers import error_from, told, type_of
from tms.client.remote.first_contact import FirstContact
from tms.client.remote.named_leaders import NamedLeaders
from tms.client.remote.routes import Keys, keys_of
from tms.client.remote.transport_errors import CALLS_MAX, told_of_lost_answers, typed_errors
from tms.core.errors import NotAuthenticated, NotTms, OutcomeUnknown, ServerUnreachable, TmsError
from tms.core.runtime.deadlines import in_time, seconds_left
from tms.core.runtime.event_loops import OwnLoop
from tms.core.runtime.forks import tell_in_child
from tms.core.runtime.http_connections import close_quietly, guard
from tms.core.runtime.tls import client_context
from tms.core.services.cluster import FORWARDED_BY, LEADER, MISSING_SHARDS
from tms.core.values.caller import ANYBODY, PART_HEADER, Caller
from tms.wire.media_types import ARROW_TYPE, AVRO_TYPE, JSON_TYPE
from tms.wire.registry_bodies import CONTENT_TYPE as REGISTRY_TYPE

CONNECT_S_MAX = 5.0
_SENDING = "send_request_headers.started"
IDLE_S_MAX = 4.0
"""An idle connection is given up long before a server does so: none breaks as it is used again."""
COMPRESSED_BYTES_MIN = 1024
_READ = "GET"
_log = logging.getLogger("tms.client")
_CLUSTER = "v1/cluster"
_CLOSED = "the connections are closed"


_OUR_TYPES = frozenset(
    {
        "",
        "application/octet-stream",
        ARROW_TYPE,
        AVRO_TYPE,
        JSON_TYPE,
        REGISTRY_TYPE,
        "text/css",  # the console's, by which it is found
    }
)


Meet = Callable[[Callable[[], Awaitable[httpx.Response]], str], Awaitable[httpx.Response]]
"""Waits for the answer of a server that may be none."""

Ask = Callable[[str], AbstractAsyncContextManager[httpx.Response]]
"""Sends a request to a URL."""
Heard = Callable[[str, httpx.Response], None]
"""Is told the URL of a server, and how its answer begins."""


@asynccontextmanager
async def _answer(
    ask: Ask, url: str, path: str, heard: Heard, meet: Meet | None = None
) -> AsyncGenerator[httpx.Response, None]:
    """Give a server's answer. Raises the error that it is, or that there was instead of it."""
    async with AsyncExitStack() as answering:
        enter = partial(answering.enter_async_context, ask(f"{url}/{path}"))
        with typed_errors(url):
            answer = await enter() if meet is None else await meet(enter, url)
            heard(url, answer)
            status, headers = answer.status_code, answer.headers
            if status != httpx.codes.OK:
                error = error_from(status, headers, await answer.aread())
                if isinstance(error, NotTms):
                    error = NotTms(url=url, **error.detail)
                raise error
            if type_of(headers) not in _OUR_TYPES:
                raise NotTms(url=url, reason=told(status, headers))
        yield answer


async def _note_sending(sent: list[str], event: str, _: object) -> None:
    """Note that a request begins to be sent, as httpcore tells it."""
    if event.endswith(_SENDING):
        sent.append(event)


class Http:
    """The REST interface of the server at a URL, or of those that it names.

    `timeout_s` is how long one answer, or the next part of it, may take; `compress` says whether
    bodies travel as gzip, both ways; `access` as whom the server is asked.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float,
        compress: bool,
        access: Access = ACCESS_OF_ANYBODY,
        direct: bool = False,
    ) -> None:
        """Make no connection yet. `direct` says whether leaders are asked that `url` does not name.

        Raises `ValueError` where `url` is not a URL, `InvalidRequest` (plaintext_credentials).
        """
        addresses = parse_addresses(url)
        access.check(addresses)
        self._credentials = access.credentials
        self._signing = access.signing
        self._trusts_proxies = access.trusts_proxies(addresses)
        self._unproxied = loopback_hosts(addresses) if self._trusts_proxies else []
        """The hosts that are reached without a proxy, though others are not."""
        self.url = ",".join(addresses)
        self._addresses = Addresses(addresses)
        self._leaders = NamedLeaders(addresses, access, is_direct=direct)
        self._has_choice = direct or len(addresses) > 1
        self._doubted: tuple[Keys, str, str] | None = None
        """A leader that may be asked only once it is known to be of the cluster, and who named it
        for what."""
        self._first_contact = FirstContact()
        self._timeout_s = timeout_s
        self._compress = compress
        self._tls = access.tls
        if access.tls is None and any(address.startswith("https:") for address in addresses):
            self._tls = client_context()
        self._connections: dict[bool, httpx.AsyncClient] = {}
        """Those of polls and those of calls, made by the first request of each kind."""
        self._closed = False
        self._loop = OwnLoop()
        tell_in_child(self)

    def forget_parent(self) -> object:
        """Give up the connections, which belong to the parent of this process, for new ones."""
        connections, self._connections = self._connections, {}
        self._loop = OwnLoop()
        if self._credentials is not None:
            self._credentials.forget_parent()
        return connections

    def _connections_of(self, *, polls: bool) -> httpx.AsyncClient:
        if self._closed:
            raise RuntimeError(_CLOSED)
        self._loop.check()
        if polls not in self._connections:
            try:
                self._connections[polls] = guard(self._made(polls=polls))
            except (ImportError, ValueError, httpx.InvalidURL) as error:
                reason = f"cannot use the proxy that the environment names: {error}"
                raise ServerUnreachable(url=self.url, reason=reason) from None
        return self._connections[polls]

    def _made(self, *, polls: bool) -> httpx.AsyncClient:
        limits = httpx.Limits(
            max_connections=None if polls else CALLS_MAX, keepalive_expiry=IDLE_S_MAX
        )
        verify = self._tls or False  # without TLS there is nothing to load
        direct = httpx.AsyncHTTPTransport(verify=verify, limits=limits, trust_env=False)
        return httpx.AsyncClient(
            headers={"Accept-Encoding": "gzip" if self._compress else "identity"},
            verify=verify,
            trust_env=self._trusts_proxies,
            auth=self._signing,
            follow_redirects=False,
            limits=limits,
            mounts={f"all://{host}": direct for host in self._unproxied},
        )

    async def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str | None = None,
        caller: Caller = ANYBODY,
    ) -> bytes:
        """Return the body of the answer. Raises any `TmsError`."""
        opened = self._open(method, path, body, content_type, caller=caller)
        async with opened as (url, answer):
            with self._reading(url, keys_of(path), is_read=method == _READ):
                return await in_time(answer.aread, url=url)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        body: bytes,
        content_type: str,
        query: Mapping[str, str | int],
        wait_s: float,
        *,
        accept: str | None = None,
    ) -> AsyncGenerator[tuple[Mapping[str, str], AsyncIterator[bytes]], None]:
        """Post, and give the answer's headers, and the parts of its body as they arrive.

        The answer may take `wait_s` seconds longer than others. `accept` is its media type, where
        that is not the body's. Raises any `TmsError`.
        """
        asked = f"{path}?{urlencode(query)}" if query else path
        async with self._open(
            "POST", asked, body, content_type, wait_s, accept=accept, is_poll=True
        ) as (url, answer):
            yield answer.headers, self._parts(url, keys_of(path), answer)

    async def _parts(self, url: str, keys: Keys, answer: httpx.Response) -> AsyncIterator[bytes]:
        """Give the parts of a body. The errors of whom they are given to are not looked at."""
        parts = answer.aiter_bytes()
        while True:
            with self._reading(url, keys, is_read=True):
                part = await in_time(lambda: anext(parts, None), url=url)
            if part is None:
                return
            yield part

    @contextmanager
    def _reading(self, url: str, keys: Keys, *, is_read: bool) -> Iterator[None]:
        try:
            with told_of_lost_answers(is_read=is_read), typed_errors(url):
                yield
        except OutcomeUnknown as error:
            self._addresses.failed(url, error, keys)
            raise

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        body: bytes,
        content_type: str | None,
        wait_s: float = 0.0,
        *,
        accept: str | None = None,
        caller: Caller = ANYBODY,
        is_poll: bool = False,
    ) -> AsyncGenerator[tuple[str, httpx.Response], None]:
        if self._doubted is not None:
            await self._look_for_doubted()
        headers = {"Content-Type": content_type} if content_type else {}
        if caller.part is not None:
            headers[PART_HEADER] = caller.part
        if accept:
            headers["Accept"] = accept
        if self._compress and len(body) >= COMPRESSED_BYTES_MIN:
            body = await asyncio.to_thread(gzip.compress, body)
            headers["Content-Encoding"] = "gzip"
        timeout = httpx.Timeout(self._timeout_s + wait_s, connect=CONNECT_S_MAX)
        connections = self._connections_of(polls=is_poll)
        sent: list[str] = []
        ask = partial(self._ask, connections, method, content=body, timeout=timeout)
        if seconds_left() != inf:
            ask = partial(ask, extensions={"trace": partial(_note_sending, sent)})
        async with AsyncExitStack() as answering:
            with told_of_lost_answers(is_read=is_poll or method == _READ):
                answer_of = partial(self._answer_of_somebody, answering, ask, path, headers)
                url, answer = await in_time(answer_of, lambda: bool(sent), url=self.url)
            yield url, answer

    async def _answer_of_somebody(
        self,
        answering: AsyncExitStack,
        ask: Callable[..., AbstractAsyncContextManager[httpx.Response]],
        path: str,
        headers: Mapping[str, str],
    ) -> tuple[str, httpx.Response]:
        """Return the first answer; if the credentials are refused, that to other ones if any."""
        if self._credentials is None:
            return await self._first_answer(answering, partial(ask, headers=headers), path)
        sent = await self._credentials.header()
        try:
            as_somebody = partial(ask, headers={**headers, "Authorization": sent})
            return await self._first_answer(answering, as_somebody, path)
        except NotAuthenticated:
            renewed = await self._credentials.renewed(sent)
            if renewed is None:
                raise
        as_somebody = partial(ask, headers={**headers, "Authorization": renewed})
        return await self._first_answer(answering, as_somebody, path)

    def _ask(
        self, connections: httpx.AsyncClient, method: str, url: str, **parts: Any
    ) -> AbstractAsyncContextManager[httpx.Response]:
        if self._closed:
            raise RuntimeError(_CLOSED)
        return self._sent(connections, connections.build_request(method, url, **parts))

    @asynccontextmanager
    async def _sent(
        self, connections: httpx.AsyncClient, request: httpx.Request
    ) -> AsyncGenerator[httpx.Response, None]:
        answer = await connections.send(request, stream=True)
        try:
            yield answer
        finally:
            if self._closed:  # while this was under way: httpx has lost the connection
                await answer.extensions["network_stream"].aclose()
            await close_quietly(answer)

    async def _first_answer(
        self, answering: AsyncExitStack, ask: Ask, path: str
    ) -> tuple[str, httpx.Response]:
        """Return the answer of the first server that has one, and its URL.

        Raises what the last one did that was asked; nobody is asked after one that may have done
        something.
        """
        keys = keys_of(path) if self._has_choice else ()
        heard = partial(self._heard, keys)
        *others, last = self._addresses.in_order(keys)
        for url in others:
            try:
                return url, await answering.enter_async_context(_answer(ask, url, path, heard))
            except TmsError as error:
                if not self._addresses.failed(url, error, keys):
                    raise
        try:
            # Of several servers one may hang, and the next one is asked.
            meet = None if others else self._first_contact.wait
            return last, await answering.enter_async_context(_answer(ask, last, path, heard, meet))
        except TmsError as error:
            self._addresses.failed(last, error, keys)
            raise

    def _heard(self, keys: Keys, url: str, answer: httpx.Response) -> None:
        """Learn from an answer who leads."""
        if missing := answer.headers.get(MISSING_SHARDS):
            _log.warning("the answer omits shard %s, because no server leads it", missing)
        if not self._has_choice or answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
            return
        if FORWARDED_BY not in answer.headers:
            self._addresses.answered(keys, url)
            return
        named = answer.headers.get(LEADER, "")
        self._addresses.forwarded(keys, url, self._leaders.url_of(named, url))
        if self._leaders.is_in_doubt:
            self._doubted = keys, url, named

    async def _look_for_doubted(self) -> None:
        """Ask those that were given whether a leader is of the cluster, which gets credentials."""
        assert self._doubted is not None
        (keys, url, named), self._doubted = self._doubted, None
        if not self._leaders.is_time_to_ask():
            return
        with suppress(TmsError, TimeoutError):
            async with asyncio.timeout(CONNECT_S_MAX):
                self._leaders.confirm(await self.send(_READ, _CLUSTER))
        leader = self._leaders.url_of(named, url)
        if leader is not None:
            self._addresses.forwarded(keys, url, leader)

    def same_leader(self, path: str, other: str) -> None:
        """Ask first for what is at `path` who is asked first for `other`."""
        if self._has_choice:
            self._addresses.same(keys_of(path), keys_of(other))

    async def close(self) -> None:
        """Close the connections. Calls after that raise `RuntimeError`."""
        self._closed = True
        for connections in self._connections.values():
            await close_quietly(connections)
