"""Forwards requests to the leader of the cluster, bodies streamed both ways.

The answer has the header `TMS-Forwarded-By` with the number of the server that forwarded it. A
request that was forwarded once is not forwarded again: whoever is asked so and does not lead,
answers 503 `no_leader`, as where no leader is known or it takes no connection: then nothing was
done. So it is where the leader does not take what this server seals: that is never told to the
client as if its own credentials were wrong. Where the connection to it breaks later, or another
server comes to lead before the answer, that is 504 `outcome_unknown`; within the answer's body the
client's connection is cut. So it is for whatever the connection to the leader raises; the errors
of the client's own side pass as they are.
"""

import asyncio
import logging
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import httpx

from api.http.access_control import CHECK_S
from api.http.endpoint import FORWARDED_BY
from api.http.exchange import ClientGone, Exchange
from api.http.rare_log import RareLog
from api.http.request_body import check_announced
from tms.core.errors import InvalidRequest, NoLeader, OutcomeUnknown
from tms.core.http_connections import close_quietly, guard, reason_of
from tms.core.messaging import STOPPED_AT
from tms.security.forwards import BOOT_HEADER, Sealer
from tms.security.forwards import HEADER as SEALED

_is_target = re.compile(rb"[!-~]+").fullmatch
Before = Callable[[Mapping[str, str]], Awaitable[None]]
"""Is given the headers of an answer before that is passed on."""
CONNECTIONS_MAX = 1000
CONNECT_S_MAX = 5.0
_KEPT_BYTES_MAX = 64 * 1024
"""A body that is kept until the other server has taken the seal, if its boot is not known."""
IDLE_S_MAX = 4.0
"""An idle connection is given up long before the leader does so."""

_OF_ONE_HOP = frozenset(
    {
        b"connection",
        b"expect",
        b"host",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_CHECKED_HERE = frozenset({b"origin", b"sec-fetch-dest", b"sec-fetch-mode", b"sec-fetch-site"})
"""Who calls was checked by this server's name; the leader has another."""
_OURS = frozenset({SEALED.lower().encode(), FORWARDED_BY})
"""Headers that only servers send: those of a client are not forwarded."""
_MAY_WAIT = b"wait="
"""In the query of a poll that waits for messages."""
_OF_THE_SERVER = frozenset({b"date", b"server"})
_unsealed = RareLog("requests whose seals another server refused", logging.WARNING)


class _Way:
    """The way to one process of a server. A request that is on it stays on it."""

    __slots__ = ("address", "boot", "client", "closed")

    def __init__(self, address: str, boot: str, client: httpx.AsyncClient) -> None:
        self.address = address
        self.boot = boot
        """Which process it is; empty if that is not known."""
        self.client = client
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once it leads to the leader no more. What is on it may not hear of that by itself:
        httpx has a request wait on for a connection of a client that was closed."""

    async def close(self) -> None:
        """Break off what is on it."""
        self.closed.set_result(None)
        await close_quietly(self.client)


class Forwarder:
    """The way to the present leader."""

    def __init__(
        self, instance_id: int, tls: ssl.SSLContext | None = None, sealer: Sealer | None = None
    ) -> None:
        """Forward for the server of that number, once `forward_to` has named a leader.

        A leader at https:// is trusted by `tls`; None: by the machine's own certificates.
        `sealer` seals the caller's principal; None: callers' own credentials are forwarded.
        """
        self._tls = tls
        self._sealer = sealer
        self._id = b"%d" % instance_id
        self._way: _Way | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def check_leader(self) -> None:
        """Raise `NoLeader` where nobody is known who would take a publish."""
        if self._way is None:
            raise NoLeader

    def forward_to(self, address: str | None, boot: str = "") -> None:
        """Forward to `address` from now on; what another has not answered is broken off.

        `boot` says which process of that server it is; empty: that is not known.
        """
        old = self._way
        if old is not None and old.address == address and (not boot or old.boot in ("", boot)):
            old.boot = boot or old.boot
            return
        if old is None and address is None:
            return
        self._way = None
        if old is not None:
            closing = asyncio.ensure_future(old.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        if address is not None:
            made = httpx.AsyncClient(
                base_url=address,
                trust_env=False,
                verify=self._tls or address.startswith("https:"),
                timeout=httpx.Timeout(None, connect=CONNECT_S_MAX),
                limits=httpx.Limits(max_connections=CONNECTIONS_MAX, keepalive_expiry=IDLE_S_MAX),
            )
            # The leader sees what the client says it takes, and nothing that httpx would add.
            made.headers.clear()
            self._way = _Way(address, boot, guard(made))

    async def close(self) -> None:
        """Close the connections."""
        self.forward_to(None)
        await asyncio.gather(*self._closing)

    async def forward(
        self, exchange: Exchange, path: str | None = None, before_answer: Before | None = None
    ) -> None:
        """Have the leader answer, at `path` if it is not the request's own.

        `before_answer` is given the headers of the answer, and waited for before that is passed on.
        Raises `NoLeader`, `OutcomeUnknown`, `ClientGone`, and of a body that the leader need not
        see `TooLarge`, `InvalidRequest` (body_too_slow).
        """
        way = self._way
        if way is None or FORWARDED_BY in exchange.headers:
            raise NoLeader
        check_announced(exchange, exchange.context.limits.request_bytes_max)
        forwarded = _Forwarded(
            way,
            exchange,
            self._id,
            path or exchange.path,
            before_answer=before_answer,
            sealer=self._sealer,
        )
        working = asyncio.ensure_future(forwarded.run())
        watching = asyncio.ensure_future(forwarded.watch())
        awaited = {working, watching, way.closed}
        try:
            check_s, first = (
                None if exchange.admission is None else CHECK_S,
                asyncio.FIRST_COMPLETED,
            )
            while not (await asyncio.wait(awaited, timeout=check_s, return_when=first))[0]:
                await exchange.check_again()
            if working.done():
                working.result()
            elif watching.done():
                raise ClientGone
            else:
                raise OutcomeUnknown(reason="another server is the leader now")
        finally:
            for task in (working, watching):
                task.cancel()
            await asyncio.gather(working, watching, return_exceptions=True)
            del working, awaited, task  # an error keeps this frame, which must not keep the tasks


class _Forwarded:
    """One request on its way."""

    def __init__(
        self,
        way: _Way,
        exchange: Exchange,
        instance_id: bytes,
        path: str,
        *,
        before_answer: Before | None,
        sealer: Sealer | None,
    ) -> None:
        self._sealer = sealer
        self._way = way
        self._whole = exchange.whole_body
        """The body, if all of it is there."""
        self._exchange = exchange
        self._id = instance_id
        self._path = path
        self._before_answer = before_answer
        self._is_read = asyncio.Event()
        """Whether the client's body has been read to its end."""
        self._own_error: Exception | None = None
        """By what reading the client's body failed, while it was sent on."""

    async def watch(self) -> None:
        """Return when the client has gone; of a request that may wait, when it ended its side."""
        await self._is_read.wait()
        exchange = self._exchange
        await (exchange.ended() if _MAY_WAIT in exchange.query else exchange.gone())

    async def run(self) -> None:
        answer = await self._answer()
        try:
            await self._pass_on(answer)
        finally:
            await close_quietly(answer)

    async def _answer(self) -> httpx.Response:
        """Return the beginning of the other server's answer.

        One that does not take the seal has done nothing, and says for which process it should be:
        a body that is still there is sent once more.
        """
        way, exchange = self._way, self._exchange
        length = exchange.fields.body_bytes
        if self._sealer is not None and not way.boot and 0 < length <= _KEPT_BYTES_MAX:
            # It may have to be sent once more.
            self._whole = self._whole or b"".join([part async for part in self._body()])
        is_whole = self._whole is not None or not exchange.body_unread
        while True:
            boot = way.boot
            request = self._request(boot)
            with self._typed_errors():
                answer = await way.client.send(request, stream=True)
            told = answer.headers.get(BOOT_HEADER)
            if told is None:
                return answer
            await close_quietly(answer)
            way.boot = told
            if told == boot or not is_whole:
                _unsealed.add(f"{way.address}: its audit says why")
                raise NoLeader(reason="the other server refuses the seals of this one")

    @contextmanager
    def _typed_errors(self) -> Iterator[None]:
        """Raise what the connection to the leader raises as ours."""
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise NoLeader(reason=reason_of(error)) from None
        except Exception as error:
            if error is self._own_error:
                raise
            raise OutcomeUnknown(reason=reason_of(error)) from None

    def _request(self, boot: str) -> httpx.Request:
        exchange, client = self._exchange, self._way.client
        headers = _without(exchange.fields.lines, _OF_ONE_HOP | _CHECKED_HERE | _OURS)
        if exchange.authorization is not None:
            headers.append((b"authorization", exchange.authorization))
        if not exchange.body_unread:
            self._is_read.set()
        if client.is_closed:
            raise NoLeader
        path = client.base_url.raw_path.rstrip(b"/") + self._path.encode("latin-1")
        target = path + b"?" + exchange.query if exchange.query else path
        if not _is_target(target):
            reason = "a target must have only visible ASCII characters: percent-encode others"
            raise InvalidRequest("malformed_request", reason=reason)
        request = client.build_request(
            exchange.method,
            "/",
            headers=[*headers, (FORWARDED_BY, self._id)],
            content=self._body() if exchange.body_unread else self._whole,
            # As it came: httpx would take `//x` for a host, and leave `/../` out.
            extensions={"target": target},
        )
        self._seal(request, boot)
        return request

    def _seal(self, request: httpx.Request, boot: str) -> None:
        """Say in a request who asked, so that the leader knows that this server says it."""
        exchange, sealer = self._exchange, self._sealer
        if sealer is None:
            return
        request.headers.pop("authorization", None)
        admission = exchange.admission
        if admission is None or admission.session is None:
            return
        path, _, query = request.extensions["target"].partition(b"?")
        body: bytes | int | None = self._whole
        if exchange.body_unread:
            body = None if exchange.fields.is_chunked else exchange.fields.body_bytes
        request.headers[SEALED] = sealer.seal(
            admission.session.identity,
            request.method,
            path.decode("latin-1"),
            query,
            target=self._way.address,
            body=body,
            boot=boot,
        ).decode("ascii")

    async def _body(self) -> AsyncIterator[bytes]:
        """Give the client's body as it comes. Raises `InvalidRequest` if it is too slow."""
        exchange = self._exchange
        while exchange.body_unread:
            try:
                part = await exchange.receive()
            except Exception as error:
                self._own_error = error
                raise
            yield part
        self._is_read.set()

    async def _pass_on(self, answer: httpx.Response) -> None:
        headers = _without(answer.headers.raw, _OF_ONE_HOP | _OF_THE_SERVER)
        headers.append((FORWARDED_BY, self._id))
        if self._before_answer is not None:
            await self._before_answer(answer.headers)
        await self._exchange.start_forwarded(answer.status_code, headers)
        if STOPPED_AT in answer.headers:
            self._exchange.send_head()  # the rest may take as long as the reader waits
        parts = answer.aiter_raw()
        while True:
            with self._typed_errors():
                part = await anext(parts, None)
            if part is None:
                break
            await self._exchange.check_again()
            await self._exchange.send_part(part, more=True)
        await self._exchange.send_part(b"", more=False)


def _without(
    headers: Iterable[tuple[bytes, bytes]], names: frozenset[bytes]
) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name.lower() not in names]
