"""Forwards requests to the leader of the cluster, bodies streamed both ways.

The answer has the header `TMS-Forwarded-By` with the number of the server that forwarded it. A
request that was forwarded once is not forwarded again: whoever is asked so and does not lead,
answers 503 `no_leader`, as where no leader is known or it takes no connection: then nothing was
done. Where the connection to it breaks later, or another server comes to lead before the answer,
that is 504 `outcome_unknown`; within the answer's body the client's connection is cut.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

import httpx

from api.http.access_control import CHECK_S
from api.http.endpoint import FORWARDED_BY as HEADER
from api.http.exchange import ClientGone, Exchange
from api.http.request_body import check_announced
from tms.core.errors import InvalidRequest, NoLeader, OutcomeUnknown
from tms.security.forwards import HEADER as SEALED
from tms.security.forwards import Sealer

_is_target = re.compile(rb"[!-~]+").fullmatch
Before = Callable[[Mapping[str, str]], Awaitable[None]]
"""Is given the headers of an answer before that is passed on."""
Seal = Callable[[Exchange, httpx.Request], None]
"""Adds to a request who asked for it."""
CONNECTIONS_MAX = 1000
CONNECT_S_MAX = 5.0
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
_OURS = frozenset({SEALED.lower().encode(), HEADER})
"""What only servers say of a request: a client's is not passed on."""
_MAY_WAIT = b"wait="
"""In the query of a poll that waits for messages."""
_OF_THE_SERVER = frozenset({b"date", b"server"})


class Forwarder:
    """The way to the present leader."""

    def __init__(self, instance_id: int, tls: ssl.SSLContext | None = None) -> None:
        """Forward for the server of that number, once `lead_to` has named a leader.

        A leader at https:// is trusted by `tls`; None: by the machine's own certificates.
        """
        self._tls = tls
        self.sealer: Sealer | None = None
        """What seals who asked; None: callers' own credentials are passed on."""
        self._id = b"%d" % instance_id
        self._address: str | None = None
        self._client: httpx.AsyncClient | None = None
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str | None:
        """The URL of the leader, None where there is none."""
        return self._address

    def lead_to(self, address: str | None) -> None:
        """Forward to `address` from now on; what another has not answered is broken off."""
        if address == self._address:
            return
        old, self._client = self._client, None
        self._address = address
        if old is not None:
            closing = asyncio.ensure_future(old.aclose())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        if address is not None:
            self._client = httpx.AsyncClient(
                base_url=address,
                trust_env=False,
                verify=self._tls or address.startswith("https:"),
                timeout=httpx.Timeout(None, connect=CONNECT_S_MAX),
                limits=httpx.Limits(max_connections=CONNECTIONS_MAX, keepalive_expiry=IDLE_S_MAX),
            )
            # The leader sees what the client says it takes, and nothing that httpx would add.
            self._client.headers.clear()

    async def close(self) -> None:
        """Close the connections."""
        self.lead_to(None)
        await asyncio.gather(*self._closing)

    async def forward(
        self, exchange: Exchange, path: str | None = None, before_answer: Before | None = None
    ) -> None:
        """Have the leader answer, at `path` if it is not the request's own.

        `before_answer` is given the headers of the answer, and waited for before that is passed on.
        Raises `NoLeader`, `OutcomeUnknown`, `ClientGone`, and of a body that the leader need not
        see `TooLarge`, `InvalidRequest` (body_too_slow).
        """
        if self._client is None or HEADER in exchange.headers:
            raise NoLeader
        check_announced(exchange, exchange.context.limits.request_bytes_max)
        forwarded = _Forwarded(
            self._client,
            exchange,
            self._id,
            path or exchange.path,
            before_answer=before_answer,
            seal=self._seal,
        )
        working = asyncio.ensure_future(forwarded.run())
        watching = asyncio.ensure_future(forwarded.watch())
        both = {working, watching}
        try:
            check_s, first = (
                None if exchange.admission is None else CHECK_S,
                asyncio.FIRST_COMPLETED,
            )
            while not (await asyncio.wait(both, timeout=check_s, return_when=first))[0]:
                await exchange.check_again()
            if working.done():
                working.result()
            else:
                raise ClientGone
        finally:
            for task in (working, watching):
                task.cancel()
            await asyncio.gather(working, watching, return_exceptions=True)
            del working, both, task  # an error keeps this frame, which must not keep the tasks

    def _seal(self, exchange: Exchange, request: httpx.Request) -> None:
        """Say in a request who asked, so that the leader knows that this server says it."""
        admission = exchange.admission
        if self.sealer is None:
            return
        request.headers.pop("authorization", None)
        if admission is None or admission.session is None:
            return
        path, _, query = request.extensions["target"].partition(b"?")
        body: bytes | int | None = exchange.whole_body
        if exchange.body_unread:
            body = None if exchange.fields.is_chunked else exchange.fields.body_bytes
        assert self._address is not None, "it is forwarded to somebody"
        request.headers[SEALED] = self.sealer.seal(
            admission.session.identity,
            request.method,
            path.decode("latin-1"),
            query,
            target=self._address,
            body=body,
        ).decode("ascii")


class _Forwarded:
    """One request on its way."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        exchange: Exchange,
        instance_id: bytes,
        path: str,
        *,
        before_answer: Before | None,
        seal: Seal,
    ) -> None:
        self._seal = seal
        self._client = client
        self._exchange = exchange
        self._id = instance_id
        self._path = path
        self._before_answer = before_answer
        self._is_read = asyncio.Event()
        """Whether the client's body has been read to its end."""

    async def watch(self) -> None:
        """Return when the client has gone; of a request that may wait, when it ended its side."""
        await self._is_read.wait()
        exchange = self._exchange
        await (exchange.ended() if _MAY_WAIT in exchange.query else exchange.gone())

    async def run(self) -> None:
        try:
            request = self._request()
            answer = await self._client.send(request, stream=True)
            try:
                await self._pass_on(answer)
            finally:
                await answer.aclose()
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise NoLeader(reason=_reason(error)) from None
        except (httpx.TransportError, httpx.StreamError) as error:
            raise OutcomeUnknown(reason=_reason(error)) from None

    def _request(self) -> httpx.Request:
        exchange = self._exchange
        headers = _without(exchange.fields.lines, _OF_ONE_HOP | _CHECKED_HERE | _OURS)
        if exchange.authorization is not None:
            headers.append((b"authorization", exchange.authorization))
        if not exchange.body_unread:
            self._is_read.set()
        if self._client.is_closed:
            raise NoLeader
        path = self._client.base_url.raw_path.rstrip(b"/") + self._path.encode("latin-1")
        target = path + b"?" + exchange.query if exchange.query else path
        if not _is_target(target):
            reason = "a target is of visible ASCII characters: percent-encode others"
            raise InvalidRequest("malformed_request", reason=reason)
        request = self._client.build_request(
            exchange.method,
            "/",
            headers=[*headers, (HEADER, self._id)],
            content=self._body() if exchange.body_unread else exchange.whole_body,
            # As it came: httpx would take `//x` for a host, and leave `/../` out.
            extensions={"target": target},
        )
        self._seal(exchange, request)
        return request

    async def _body(self) -> AsyncIterator[bytes]:
        """Give the client's body as it comes. Raises `InvalidRequest` if it is too slow."""
        exchange = self._exchange
        while exchange.body_unread:
            yield await exchange.receive()
        self._is_read.set()

    async def _pass_on(self, answer: httpx.Response) -> None:
        headers = _without(answer.headers.raw, _OF_ONE_HOP | _OF_THE_SERVER)
        headers.append((HEADER, self._id))
        if self._before_answer is not None:
            await self._before_answer(answer.headers)
        await self._exchange.start_forwarded(answer.status_code, headers)
        async for part in answer.aiter_raw():
            await self._exchange.check_again()
            await self._exchange.send_part(part, more=True)
        await self._exchange.send_part(b"", more=False)


def _without(
    headers: Iterable[tuple[bytes, bytes]], names: frozenset[bytes]
) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name.lower() not in names]


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
