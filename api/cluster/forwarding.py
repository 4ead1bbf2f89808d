"""Forwards requests to the leader of the cluster, bodies streamed both ways.

The answer has the header `TMS-Forwarded-By` with the number of the server that forwarded it, and
`TMS-Leader` with the leader's address. The errors are:

- 503 `no_leader`, with nothing done: no leader is known; the leader accepts no connection, or did
  not get the whole request; the server that got it does not lead, so it does not forward it again;
  or it refuses the seals of this server. The client must not take that for a refusal of its own
  credentials.
- 504 `outcome_unknown`: the connection to the leader breaks later, or another server becomes the
  leader before the answer.
- Within the answer's body, the client's connection is cut.

Any error of the connection to the leader becomes one of these. Errors of the client's own side
are passed on unchanged.
"""

import asyncio
import logging
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import lru_cache

from api.cluster.forward_shares import ForwardShares
from api.cluster.held_requests import read_kept
from api.cluster.ways import Way, Ways
from api.http.break_off import BreakOff
from api.http.door.access_control import CHECK_S
from api.http.endpoint import FORWARDED_BY
from api.http.errors import NO_LEADER
from api.http.exchange import Exchange
from api.http.operation import Operation
from api.http.protocol.answer import lines
from api.http.request_body import check_announced, read_whole
from api.http.request_ids import HEADER as REQUEST_ID
from tms.core.errors import InvalidRequest, NoLeader, OutcomeUnknown
from tms.core.runtime.rare_log import RareLog
from tms.core.services.cluster import LEADER
from tms.core.services.messaging import STOPPED_AT
from tms.outgoing.answer import Answer, reason_of
from tms.outgoing.upstream import NotSent
from tms.security.forwards import BOOT_HEADER, Sealer
from tms.security.forwards import HEADER as SEALED

_is_target = re.compile(rb"[!-~]+").fullmatch
Headers = list[tuple[bytes, bytes]]
Before = Callable[[Mapping[str, str]], Awaitable[None]]
"""Gets the headers of an answer, names in lower case, before the answer is passed on."""
_KEPT_BYTES_MAX = 64 * 1024
"""A body up to this size is kept until a server whose boot is unknown accepts the seal."""

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
"""These were checked against this server's name; the leader has another."""
_SEALED = SEALED.lower().encode()
_OURS = frozenset({_SEALED, FORWARDED_BY})
"""Headers that only servers send: those of a client are not forwarded."""
_NOT_SENT_ON = _OF_ONE_HOP | _CHECKED_HERE | _OURS
_FIELDS_KEPT = 128
MAY_WAIT = b"wait="
"""A part of the query of each poll that waits for messages."""
_LEADER = LEADER.encode()
_NOT_PASSED_ON = _OF_ONE_HOP | {b"date", b"server", _LEADER}
_BOOT = BOOT_HEADER.lower().encode()
_STOPPED_AT = STOPPED_AT.lower().encode()
_log = logging.getLogger("tms.api")
_unsealed = RareLog(_log, "requests whose seals another server refused", logging.WARNING)


class Forwarder:
    """Forwards requests to the current leader."""

    def __init__(
        self, instance_id: int, tls: ssl.SSLContext | None = None, sealer: Sealer | None = None
    ) -> None:
        """Forward for the server of that number, once `forward_to` has named a leader.

        `tls` verifies a leader at https://; None uses the machine's own certificates. `sealer`
        seals the caller's principal; without it, callers' own credentials are forwarded.
        """
        self._sealer = sealer
        self._id = b"%d" % instance_id
        self._ways = Ways(tls)
        self._shares = ForwardShares()
        self._endless = ForwardShares()
        """The shares of endless answers, which would leave no room for others."""

    @property
    def address(self) -> str | None:
        """The URL of the leader, None if none is known."""
        return None if self._ways.present is None else self._ways.present.address

    def check_leader(self) -> None:
        """Raise `NoLeader` if no leader is known."""
        if self._ways.present is None:
            raise NoLeader

    def forward_to(self, address: str | None, boot: str = "") -> None:
        """Forward to `address` from now on, as `Ways.lead_to`."""
        self._ways.lead_to(address, boot)

    async def close(self) -> None:
        """Close the connections."""
        self._ways.close()
        await asyncio.sleep(0)  # the event loop closes them in this turn

    async def forward(
        self, exchange: Exchange, path: str | None = None, before_answer: Before | None = None
    ) -> None:
        """Let the leader answer, at `path` if it is not the request's own.

        `before_answer` gets the headers of the answer, and is awaited before that is passed on. It
        needs a task. The body of an unknown caller is read first, so that it holds no connection to
        the leader. Raises `NoLeader`, `OutcomeUnknown`, `TooManyConnections`, `ClientGone`, and for
        a body that the leader need not see `TooLarge`, `QueueFull`, `InvalidRequest`
        (body_too_slow).
        """
        way = self._ways.present
        if way is None or FORWARDED_BY in exchange.headers:
            raise NoLeader
        check_announced(exchange, exchange.context.limits.request_bytes_max)
        added = [(FORWARDED_BY, self._id)]
        if path is None:
            added.append((_LEADER, way.address.encode()))
        forwarded = _Forwarded(way, exchange, path or exchange.path, added, sealer=self._sealer)
        operation = exchange.endpoint.operation
        is_endless = isinstance(operation, Operation) and operation.is_endless
        shares = self._endless if is_endless else self._shares
        may_wait = is_endless or MAY_WAIT in exchange.query
        loop = way.client.loop
        try:
            with BreakOff(
                exchange, loop, check_s=CHECK_S, at_end_of_side=may_wait, at_work=way.at_work
            ):
                is_known, sharer = _sharer_of(exchange)
                if not is_known and exchange.body_unread:
                    await read_whole(exchange)
                await shares.enter(sharer)
                try:
                    await forwarded.run(before_answer)
                finally:
                    shares.leave(sharer)
        except OutcomeUnknown as error:
            if forwarded.may_be_done:
                raise
            raise NoLeader(reason=f"the request was not sent completely: {error}") from None


def _sharer_of(exchange: Exchange) -> tuple[bool, str]:
    """Return whether the caller is known, and the caller in whose share the request counts."""
    if exchange.context.access is None:
        return True, f"address {exchange.address}"
    admission = exchange.admission
    if admission is None or admission.session is None:
        return False, f"address {exchange.address}"
    return True, f"principal {admission.session.identity.principal}"


class _Forwarded:
    """One request that is being forwarded."""

    def __init__(
        self,
        way: Way,
        exchange: Exchange,
        path: str,
        added: Headers,
        *,
        sealer: Sealer | None,
    ) -> None:
        self._sealer = sealer
        self._way = way
        self._exchange = exchange
        self._path = path
        self._added = added
        """Headers that are added to the answer."""
        self._whole: bytes | None = None
        """The body, if it is complete."""
        self._is_begun = self._is_sent = False
        self._body = _Body(exchange)

    @property
    def may_be_done(self) -> bool:
        """Whether the other server may have carried it out: not without the body that it needs."""
        operation = self._exchange.endpoint.operation
        reads_body = isinstance(operation, Operation) and operation.request is not None
        return self._is_sent or (self._is_begun and not reads_body)

    def _note_write(self, is_last: bool) -> None:  # noqa: FBT001  an OnWrite
        self._is_begun, self._is_sent = True, self._is_sent or is_last

    async def run(self, before_answer: Before | None) -> None:
        """Send it, and pass on the answer."""
        self._whole = self._exchange.whole_body
        answer = await self._answer()
        try:
            if before_answer is not None:
                await before_answer(
                    {
                        name.lower().decode("latin-1"): value.decode("latin-1")
                        for name, value in answer.headers
                    }
                )
            await self._pass_on(answer)
        finally:
            if not answer.is_complete:
                await answer.aclose()

    async def _answer(self) -> Answer:
        """Return the beginning of the other server's answer.

        A server that refuses the seal has done nothing, and names the process to seal for: the
        request is sent once more if its body is still available.
        """
        way, exchange = self._way, self._exchange
        length = exchange.fields.body_bytes
        if self._sealer is not None and not way.boot and 0 < length <= _KEPT_BYTES_MAX:
            # It may have to be sent once more.
            self._whole = self._whole or b"".join([part async for part in self._body])
        is_whole = self._whole is not None or not exchange.body_unread
        is_whole = is_whole or exchange.kept is not None
        while True:
            boot = way.boot
            answer = await self._send(boot)
            if is_whole and answer.value(_LEADER) == NO_LEADER[1]:
                await answer.aclose()
                raise NoLeader(reason="the other server no longer leads")
            refused_for = None if self._sealer is None else answer.value(_BOOT)
            if refused_for is None:
                return answer
            await answer.aclose()
            way.boot = refused_for.decode("latin-1")
            if way.boot == boot or not is_whole:
                _unsealed.add(f"{way.address}: its audit says why")
                raise NoLeader(reason="the other server refuses the seals of this one")
            if exchange.kept is not None:
                await read_kept(exchange)
                self._whole = exchange.whole_body

    async def _send(self, boot: str) -> Answer:
        exchange, client = self._exchange, self._way.client
        path = client.path + self._path.encode("latin-1")
        target = path + b"?" + exchange.query if exchange.query else path
        if not _is_target(target):
            reason = "a target may contain only visible ASCII characters: percent-encode others"
            raise InvalidRequest("malformed_request", reason=reason)
        fields, is_counted = _sent_on(exchange.fields.lines)
        more = self._added[:1]
        if exchange.has_request_id and REQUEST_ID not in exchange.headers:
            more.append((REQUEST_ID, exchange.request_id.encode()))
        if self._sealer is not None:
            more += self._seal(self._sealer, path.decode("latin-1"), boot)
        elif exchange.authorization is not None:
            more.append((b"authorization", exchange.authorization))
        fields += lines(more)
        body = self._body if exchange.body_unread else self._whole
        try:
            return await client.send(
                exchange.method,
                target,
                fields,
                body,
                is_counted=is_counted,
                on_write=self._note_write,
            )
        except Exception as error:
            self._is_begun = True  # it may have begun
            raise self._typed(error) from None

    def _seal(self, sealer: Sealer, path: str, boot: str) -> Headers:
        """Return the header by which this server vouches to the leader for the caller."""
        exchange = self._exchange
        admission = exchange.admission
        if admission is None or admission.session is None:
            return []
        body: bytes | int | None = self._whole
        if exchange.body_unread:
            body = None if exchange.fields.is_chunked else exchange.fields.body_bytes
        seal = sealer.seal(
            admission.session.identity,
            exchange.method,
            path,
            exchange.query,
            target=self._way.address,
            body=body,
            boot=boot,
        )
        return [(_SEALED, seal)]

    def _typed(self, error: Exception) -> Exception:
        """Return our error for one that the connection to the leader raised."""
        if isinstance(error, NotSent):
            return NoLeader(reason=reason_of(error))
        return error if self._body.has_raised(error) else OutcomeUnknown(reason=reason_of(error))

    async def _pass_on(self, answer: Answer) -> None:
        exchange = self._exchange
        headers = [line for line in answer.headers if line[0].lower() not in _NOT_PASSED_ON]
        await exchange.start_forwarded(answer.status_code, headers + self._added)
        if not answer.is_complete and answer.value(_STOPPED_AT) is not None:
            exchange.send_head()  # the body may begin only after a long wait
        parts, more = answer.aiter_raw(), True
        while more:
            try:
                part = await anext(parts, b"")
            except Exception as error:
                raise self._typed(error) from None
            if part:  # a caller that ended its own credentials still gets this answer
                await exchange.check_again()
            more = not answer.is_read
            await exchange.send_part(part, more=more)


@lru_cache(_FIELDS_KEPT)
def _sent_on(fields: tuple[tuple[bytes, bytes], ...]) -> tuple[bytes, bool]:
    """Return lines of the fields to forward, and whether Content-Length is among them.

    Cached, because clients repeat their fields.
    """
    kept = [field for field in fields if field[0] not in _NOT_SENT_ON]
    return lines(kept), b"content-length" in [name for name, _ in kept]


class _Body:
    """The client's body, as it arrives."""

    __slots__ = ("_exchange", "_raised")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._raised: Exception | None = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """Return the next part. Raises `ClientGone`, `InvalidRequest` if it is too slow."""
        if not self._exchange.body_unread:
            raise StopAsyncIteration
        try:
            return await self._exchange.receive()
        except Exception as error:
            self._raised = error
            raise

    def has_raised(self, error: Exception) -> bool:
        """Whether it has raised this error, which is then dropped, to leave no reference cycle."""
        raised, self._raised = self._raised, None
        return error is raised
