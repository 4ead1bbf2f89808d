"""Forwards writes to the master of the registry.

The answer is passed on when this server has read the log up to the write, so that the next request
to it sees the write. A write waits for its answer until another server, or none, is elected, and
for at most `ANSWERED_S_MAX`; then its outcome is unknown (50003).
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from urllib.parse import unquote

from api.cluster.forwarding import Forwarder
from api.http.endpoint import FORWARDED_BY
from api.http.exchange import Exchange
from api.http.operation import Handler, Operation
from api.http.protocol.answer import Headers
from api.http.protocol.numbers import whole_number
from tms.core.errors import NoLeader, OutcomeUnknown
from tms.registry.log.mastership import REFRESH_S, Mastership
from tms.registry.log.schema_log import REACHED_S_MAX
from tms.registry.log.service import NotMaster, Registry
from tms.registry.state.refusal import FORWARDING_FAILED, NO_MASTER, RegistryError

SEQUENCE = b"tms-registry-sequence"
"""A header of answers: the position of the master's log."""
PREFIX = "/v1/registry"
"""The registry is mounted below it, next to other paths of a server."""
ANSWERED_S_MAX = 3 * REACHED_S_MAX
"""The time limit of a master: to check schemas, read the log, and write it."""
_SILENT = f"there was no answer in {ANSWERED_S_MAX:g} s"
_WRITING_POSTS = frozenset(("register_schema", "write_tags"))


def is_write(operation: Operation) -> bool:
    """Whether an operation writes the log."""
    return operation.method in ("PUT", "DELETE") or operation.name in _WRITING_POSTS


class MasterForwarding:
    """Forwards the writes of one server to the master."""

    def __init__(self, registry: Registry, mastership: Mastership, way: Forwarder) -> None:
        self._registry = registry
        self._mastership = mastership
        self._way = way
        mastership.on_master.append(self._turn_to_master)

    def _turn_to_master(self) -> None:
        """Forward to the current master; break off requests that an earlier one did not answer."""
        master = self._mastership.master
        self._way.forward_to(None if master == self._mastership.address else master)

    def over(self, operations: Iterable[Operation]) -> tuple[Operation, ...]:
        """Return operations with writes forwarded to the master."""
        return tuple(
            replace(operation, handler=self._forwarding(operation.handler))
            if is_write(operation)
            else operation
            for operation in operations
        )

    def _forwarding(self, handler: Handler) -> Handler:
        async def handle(exchange: Exchange) -> None:
            if not (self._mastership.may_write() and await self._written(handler, exchange)):
                await self._forward(exchange)

        return handle

    async def _written(self, handler: Handler, exchange: Exchange) -> bool:
        """Whether this server has answered; False if it lost the election and wrote nothing."""
        if FORWARDED_BY in exchange.headers:
            exchange.late_headers = self._sequence
        try:
            await handler(exchange)
        except NotMaster:
            if exchange.whole_body is None and exchange.bytes_in:
                reason = "this server is no longer the master, and wrote nothing"
                raise RegistryError(NO_MASTER, reason=reason) from None
            return False
        return True

    def _sequence(self) -> Headers:
        """Return a header that says how far another server must read."""
        return ((SEQUENCE, b"%d" % self._registry.state.last_sequence),)

    async def _forward(self, exchange: Exchange) -> None:
        if self._mastership.master == self._mastership.address:
            begins = "this server is elected, and has not started yet"
            raise RegistryError(NO_MASTER, reason=begins)
        self._turn_to_master()
        is_below = unquote(exchange.path).startswith(f"{PREFIX}/")
        below = "/" + exchange.path.split("/", 3)[3] if is_below else exchange.path
        try:
            async with asyncio.timeout(ANSWERED_S_MAX):
                await self._way.forward(exchange, below, self._caught_up)
        except TimeoutError:
            raise RegistryError(FORWARDING_FAILED, reason=_SILENT) from None
        except NoLeader as error:
            reason = error.detail.get("reason")
            if reason is None:
                raise RegistryError(NO_MASTER, reason="no master is elected") from None
            raise RegistryError(FORWARDING_FAILED, reason=reason) from None
        except OutcomeUnknown as error:
            raise RegistryError(FORWARDING_FAILED, reason=str(error)) from None

    async def _caught_up(self, headers: Mapping[str, str]) -> None:
        """Return when this server has read what the master wrote, or after a time limit."""
        value = str(headers.get(SEQUENCE.decode()))
        sequence = whole_number(value) or 0
        try:
            async with asyncio.timeout(REACHED_S_MAX):
                while self._registry.state.last_sequence < sequence:
                    await self._registry.log.read_to_end()
                    if self._registry.state.last_sequence < sequence:
                        await asyncio.sleep(REFRESH_S)
        except (TimeoutError, RegistryError):
            return  # the answer is still true: the master has written it
