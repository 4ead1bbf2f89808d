"""One server's REST: sends a request once, and returns an answer or raises a typed error.

Guarantees that every failure is a `TmsError`: `ServerUnreachable` if no connection was made and so
nothing was sent, `OutcomeUnknown` if the connection broke after that, and otherwise the error that
the answer names. The status of answers that are not from TMS (a proxy's, another server's)
determines their error. Nothing is repeated here (`tms.client.remote.retry`), except once with new
credentials if those sent were refused: then nothing was done. A redirect is never followed.

An answer is bounded in bytes and in time (`tms.outgoing.connection.Patience`), whatever the server.
"""

import asyncio
import gzip
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import lru_cache, partial
from typing import NamedTuple
from urllib.parse import quote, urlencode

from tms.client.remote.access import ANYBODY as ACCESS_OF_ANYBODY
from tms.client.remote.access import Access
from tms.client.remote.addresses import Addresses, parse_addresses
from tms.client.remote.error_answers import is_ours, refuse
from tms.client.remote.first_contact import FirstContact
from tms.client.remote.named_leaders import NamedLeaders
from tms.client.remote.routes import Keys, keys_of
from tms.client.remote.transport_errors import typed_error
from tms.core.errors import NotAuthenticated, OutcomeUnknown, ServerUnreachable, TmsError
from tms.core.runtime.deadlines import in_time, seconds_left
from tms.core.runtime.event_loops import OwnLoop
from tms.core.runtime.forks import tell_in_child
from tms.core.runtime.tls import client_context
from tms.core.services.cluster import FORWARDED_BY, LEADER, MISSING_SHARDS
from tms.core.text.hosts import is_loopback
from tms.core.values.caller import ANYBODY, PART_HEADER, Caller
from tms.outgoing.answer import Answer
from tms.outgoing.compressed import parts_of, whole_of
from tms.outgoing.connection import OnWrite, Patience
from tms.outgoing.proxies import proxy_of
from tms.outgoing.upstream import CONNECT_S_MAX, Upstream
from tms.outgoing.url import InvalidUrl, parse_url

CALLS_MAX = 1000
"""How many calls may be in progress at a time; more wait for their turn. Polls, which may wait for
messages or for their reader, have separate connections, whose number only the server limits."""
ANSWER_BYTES_MAX = 128 * 1024 * 1024
"""The longest answer to a call, after decompression. Polls are read in parts, without a limit."""
COMPRESSED_BYTES_MIN = 1024
_SERVER_ERROR = 500
_READ = "GET"
_TARGET = "%/?&=:@!$'()*+,;-._~"
_log = logging.getLogger("tms.client")
_CLUSTER = "v1/cluster"
_CLOSED = "the connections are closed"
_FORWARDED_BY, _LEADER, _MISSING_SHARDS = (
    name.encode() for name in (FORWARDED_BY, LEADER, MISSING_SHARDS)
)


class _Request(NamedTuple):
    """A request to any of the servers."""

    method: str
    path: str
    body: bytes
    fields: bytes
    """Its header lines, without Host and credentials."""
    patience: Patience
    is_poll: bool
    on_write: OnWrite | None = None


class Http:
    """The REST interface of the server at a URL, or of those that it names.

    `timeout_s` is how long one answer, or the next part of it, may take; `compress` says whether
    bodies are sent as gzip in both directions; `access` has the credentials.
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
        """Make no connection yet. With `direct`, also ask leaders that `url` does not name.

        Raises `ValueError` if `url` is not a URL, `InvalidRequest` (plaintext_credentials).
        """
        addresses = parse_addresses(url)
        access.check(addresses)
        self._credentials = access.credentials
        self._signing = access.signing
        self._trusts_proxies = access.trusts_proxies(addresses)
        self.url = ",".join(addresses)
        self._addresses = Addresses(addresses)
        self._leaders = NamedLeaders(addresses, access, is_direct=direct)
        self._has_choice = direct or len(addresses) > 1
        self._doubted: tuple[Keys, str, str] | None = None
        """A leader that gets no request until it is known to be in the cluster: what it leads,
        which server named it, and its name."""
        self._first_contact = FirstContact()
        self._patience = Patience(timeout_s)
        self._compress = compress
        self._tls = access.tls
        if access.tls is None and any(address.startswith("https:") for address in addresses):
            self._tls = client_context()
        self._ways: dict[tuple[str, bool], Upstream] = {}
        """The connections to each server, separate for polls; made by the first request."""
        self._closed = False
        self._loop = OwnLoop()
        tell_in_child(self)

    def forget_parent(self) -> object:
        """Give up the connections, which belong to the parent of this process, for new ones."""
        ways, self._ways = self._ways, {}
        self._loop = OwnLoop()
        if self._credentials is not None:
            self._credentials.forget_parent()
        return ways

    def _way_to(self, url: str, *, is_poll: bool) -> Upstream:
        if self._closed:
            raise RuntimeError(_CLOSED)
        way = self._ways.get((url, is_poll))
        if way is None:
            place = parse_url(url)
            try:
                by_proxy = self._trusts_proxies and not is_loopback(place.host)
                proxy = proxy_of(place) if by_proxy else None
            except InvalidUrl as error:
                raise ServerUnreachable(url=self.url, reason=str(error)) from None
            way = self._ways[url, is_poll] = Upstream(
                url,
                self._tls,
                proxy=proxy,
                connections_max=math.inf if is_poll else CALLS_MAX,
                takes_unframed=True,
            )
        return way

    async def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str | None = None,
        caller: Caller = ANYBODY,
    ) -> bytes:
        """Return the body of the answer. Raises any `TmsError`."""
        fields = _fields_of(content_type, caller.part, None, self._compress)
        request = _Request(method, path, body, fields, self._patience, is_poll=False)
        url, answer = await self._answer(request)
        try:
            if answer.is_complete:
                return await whole_of(answer, ANSWER_BYTES_MAX)
            return await in_time(partial(whole_of, answer, ANSWER_BYTES_MAX), url=url)
        except Exception as error:
            raise self._lost(url, path, error, is_read=method == _READ) from None
        finally:
            if not answer.is_complete:
                await answer.aclose()

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
        """Post, and yield the answer's headers, and the parts of its body as they arrive.

        The answer may take `wait_s` seconds longer than others. `accept` is its media type if that
        is not the body's. Raises any `TmsError`.
        """
        path = f"{path}?{urlencode(query)}" if query else path
        fields = _fields_of(content_type, None, accept, self._compress)
        patience = Patience(self._patience.within_s + wait_s, 0)
        url, answer = await self._answer(
            _Request("POST", path, body, fields, patience, is_poll=True)
        )
        try:
            yield _headers_of(answer), self._parts(url, path, answer)
        finally:
            if not answer.is_complete:
                await answer.aclose()

    async def _parts(self, url: str, path: str, answer: Answer) -> AsyncIterator[bytes]:
        """Yield the parts of a body. Errors of the reader are not converted."""
        parts: AsyncIterator[bytes] | None = None
        while True:
            try:
                parts = parts or parts_of(answer)
                part = await in_time(partial(_next_of, parts), url=url)
            except Exception as error:
                raise self._lost(url, path, error, is_read=True) from None
            if part is None:
                return
            yield part

    def _lost(self, url: str, path: str, error: Exception, *, is_read: bool) -> TmsError:
        """Convert the error that ended an answer to ours, and record it."""
        typed = typed_error(error, url, is_read=is_read)
        if isinstance(typed, OutcomeUnknown):
            self._addresses.failed(url, typed, keys_of(path))
        return typed

    async def _answer(self, request: _Request) -> tuple[str, Answer]:
        """Return the beginning of the first answer, and the URL of its server.

        If the credentials are refused and there are others, it is the answer to those.
        """
        if self._doubted is not None:
            await self._look_for_doubted()
        self._loop.check()
        if self._compress and len(request.body) >= COMPRESSED_BYTES_MIN:
            body = await asyncio.to_thread(gzip.compress, request.body)
            fields = request.fields + b"content-encoding: gzip\r\n"
            request = request._replace(body=body, fields=fields)
        if seconds_left() == math.inf:
            return await self._answer_of_somebody(request)
        writes: list[bool] = []
        timed = request._replace(on_write=writes.append)
        try:
            answer = partial(self._answer_of_somebody, timed)
            return await in_time(answer, lambda: bool(writes), url=self.url)
        except OutcomeUnknown as error:
            is_read = request.is_poll or request.method == _READ
            raise typed_error(error, self.url, is_read=is_read) from error.__cause__

    async def _answer_of_somebody(self, request: _Request) -> tuple[str, Answer]:
        if self._credentials is None:
            return await self._first_answer(request)
        sent = await self._credentials.header()
        try:
            return await self._first_answer(_authorized(request, sent))
        except NotAuthenticated:
            renewed = await self._credentials.renewed(sent)
            if renewed is None:
                raise
        return await self._first_answer(_authorized(request, renewed))

    async def _first_answer(self, request: _Request) -> tuple[str, Answer]:
        """Return the answer of the first server that has one, and its URL.

        Raises the error of the last server asked. If a server may have carried the request out, no
        other one is asked.
        """
        keys = keys_of(request.path) if self._has_choice else ()
        *others, last = self._addresses.in_order(keys)
        for url in others:
            try:
                return url, await self._ask(url, request, keys)
            except TmsError as error:
                if not self._addresses.failed(url, error, keys):
                    raise
        try:
            # If one of several servers hangs, the next one is asked anyway.
            return last, await self._ask(last, request, keys, is_only=not others)
        except TmsError as error:
            self._addresses.failed(last, error, keys)
            raise

    async def _ask(
        self, url: str, request: _Request, keys: Keys, *, is_only: bool = False
    ) -> Answer:
        """Return a server's answer. Raises the error that it reports, or that occurred instead."""
        way, answer = self._way_to(url, is_poll=request.is_poll), None
        try:
            if is_only and not self._first_contact.is_over:
                answer = await self._first_contact.wait(partial(self._send, way, request), url)
            else:
                answer = await self._send(way, request)
            self._heard(keys, url, answer)
            if not is_ours(answer):
                await refuse(answer, url)
        except BaseException as error:
            if answer is not None and not answer.is_complete:
                await answer.aclose()
            if not isinstance(error, Exception):
                raise
            typed = typed_error(error, url, is_read=request.is_poll or request.method == _READ)
            if typed is error:
                raise
            raise typed from typed.__cause__
        return answer

    async def _send(self, way: Upstream, request: _Request) -> Answer:
        """Send a request; again if another process of the server answered than was meant."""
        target = way.path + _target_of(request.path)
        method, _, body, fields, patience, _, on_write = request
        fields += way.authorization
        if not body and method != _READ:
            fields += b"content-length: 0\r\n"
        if self._signing is None:
            return await way.send(
                method, target, fields, body, is_counted=False, on_write=on_write, patience=patience
            )
        send = partial(
            way.send, method, target, is_counted=False, on_write=on_write, patience=patience
        )
        for is_last in (False, True):
            answer = await send(fields + self._signing.line(method, target, body), body)
            if is_last or not self._signing.is_for_another(answer):
                break
            await answer.aclose()
        return answer

    def _heard(self, keys: Keys, url: str, answer: Answer) -> None:
        """Record the leader that an answer shows."""
        if missing := answer.value(_MISSING_SHARDS):
            shards = missing.decode("latin-1")
            _log.warning("the answer omits shard %s, because no server leads it", shards)
        if not self._has_choice or answer.status_code >= _SERVER_ERROR:
            return
        if answer.value(_FORWARDED_BY) is None:
            self._addresses.answered(keys, url)
            return
        named = (answer.value(_LEADER) or b"").decode("latin-1")
        self._addresses.forwarded(keys, url, self._leaders.url_of(named, url))
        if self._leaders.is_in_doubt:
            self._doubted = keys, url, named

    async def _look_for_doubted(self) -> None:
        """Ask the known servers whether a leader is in the cluster: it would get credentials."""
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
        """Ask the same server first for `path` as for `other`."""
        if self._has_choice:
            self._addresses.same(keys_of(path), keys_of(other))

    async def close(self) -> None:
        """Close the connections. Calls after that raise `RuntimeError`."""
        self._closed = True
        for way in self._ways.values():
            way.close()
        await asyncio.sleep(0)  # sockets are closed one turn of the loop after their connections


async def _next_of(parts: AsyncIterator[bytes]) -> bytes | None:
    return await anext(parts, None)


@lru_cache(256)
def _fields_of(
    content_type: str | None,
    part: str | None,
    accept: str | None,
    compress: bool,  # noqa: FBT001  a key of the cache
) -> bytes:
    """Return the header lines that many requests share."""
    named = {
        "accept-encoding": "gzip" if compress else "identity",
        "content-type": content_type,
        PART_HEADER: part,
        "accept": accept,
    }
    return "".join(f"{name}: {value}\r\n" for name, value in named.items() if value).encode("ascii")


@lru_cache(1024)
def _target_of(path: str) -> bytes:
    return b"/" + quote(path, safe=_TARGET).encode("ascii")


def _authorized(request: _Request, value: str) -> _Request:
    return request._replace(fields=b"%sauthorization: %s\r\n" % (request.fields, value.encode()))


def _headers_of(answer: Answer) -> dict[str, str]:
    return {
        name.decode("latin-1"): value.decode("latin-1") for name, value in answer.fields.items()
    }
