"""The door: every request to an operation passes here, and its answer or error is counted here."""

import logging
from collections.abc import Collection
from functools import cache
from time import perf_counter
from typing import Protocol

from api.http.context import Context
from api.http.errors import ErrorAnswer, answer_of
from api.http.exchange import BROKEN_OFF, CLIENT_GONE, ClientGone, Exchange
from api.http.metrics import OperationMetrics
from api.http.observers import OF_PROCESS as OBSERVERS
from api.http.operation import Handler, Operation
from api.http.protocol.media_types import wants_problem
from api.http.query_parameters import check_names
from api.http.request_body import read_body
from tms.core.errors import InvalidRequest, TmsError
from tms.core.runtime.rare_log import RareLog
from tms.core.services.cluster import FORWARDED_BY as HEADER
from tms.core.text.credentials import shortened

FORWARDED_BY = HEADER.encode()
_PATH_CHARS_LOGGED = 200

_log = logging.getLogger("tms.api")
_cut_off = RareLog(_log, "answers cut off", logging.WARNING)
"""A revocation cuts off all answers that depend on the permission."""


@cache
def _failures_of(kind: str) -> RareLog:
    """Return the log of one kind of error, which a client may be able to repeat at will.

    There is one for each class of exceptions.
    """
    return RareLog(_log, f"requests failed by {kind}", logging.ERROR)


class Routing(Protocol):
    """The routing of an operation whose shard another server may lead."""

    async def answer(self, exchange: Exchange, endpoint: "Endpoint") -> None:
        """Let another server, or `endpoint`, answer a request. Raises what either raises."""
        ...

    def leader_elsewhere(self, exchange: Exchange) -> str | None:
        """Return the URL of another server that leads the request's shard, None if none does."""
        ...


class Endpoint:
    """Answers each request with its handler, or with the error that the handler raises."""

    __slots__ = (
        "_believes_servers",
        "_callers",
        "_handler",
        "_is_page",
        "_metrics",
        "_parameters",
        "access",
        "context",
        "is_compressed",
        "is_probe",
        "is_taskless",
        "operation",
        "routing",
    )

    def __init__(
        self,
        handler: Handler,
        context: Context,
        metrics: OperationMetrics,
        operation: Operation | None = None,
    ) -> None:
        """Answer requests to `operation`; None if there is none, or another server has it.

        The context's access control checks the head of each request, and then the topics that its
        body names.
        """
        access = context.access
        self.access = access if access is not None and access.guards(operation) else None
        # Without access control nobody proves who they are, so a server's word counts too.
        self._believes_servers = access is None and context.cluster is not None
        self._callers = context.callers
        self._handler = handler
        self.operation = operation
        self.routing: Routing | None = None
        """Decides which requests are for other servers; None if none are."""
        self.context = context
        self._metrics = metrics
        self._parameters = operation.known_parameters if operation is not None else None
        self._is_page = operation is not None and operation.is_page
        self.is_compressed = operation is not None and operation.is_compressed
        self.is_probe = operation is not None and operation.is_probe
        self.is_taskless = operation is not None and operation.is_taskless

    async def serve(self, exchange: Exchange) -> None:  # noqa: C901  all requests pass here
        """Answer one request."""
        started = perf_counter()
        access = self.access
        if OBSERVERS.is_on:
            _ = exchange.request_id  # made now, so that the answer has it
        try:
            if self._callers not in exchange.fields.passed:
                self._callers.check(exchange.fields, is_page=self._is_page)
                if exchange.fields.is_of_page:
                    exchange.page_lines = self._callers.lines_for(exchange.fields)
            if self._believes_servers and FORWARDED_BY in exchange.headers:
                exchange.connection.is_of_server = True
            if self.routing is not None:
                await self.routing.answer(exchange, self)
            elif access is None and not exchange.query:
                await self._handler(exchange)  # a short cut for `answer`
            else:
                await self.answer(exchange)
        except ClientGone:
            exchange.status = CLIENT_GONE
        except Exception as error:
            await self._fail(exchange, error)
        if exchange.uses is not None and access is not None:
            await access.trail.report_uses(exchange)
        self._metrics.count(exchange.status, exchange.bytes_in, exchange.bytes_out)
        if not exchange.waited:
            self._metrics.seconds.observe(perf_counter() - started)
        if OBSERVERS.is_on:
            OBSERVERS.report(exchange, perf_counter() - started)

    async def answer(self, exchange: Exchange) -> None:
        """Check access, and call the handler. Raises what they raise."""
        access = self.access
        if access is not None and not access.admits_again(exchange):
            await access.admit(exchange)
        if exchange.query and self._parameters is not None:
            await _check_query(exchange, self._parameters)
        await self._handler(exchange)

    def error_form(self, exchange: Exchange, error: Exception) -> ErrorAnswer:
        """Return the answer to an error; its body has the request's id in TMS's own interface."""
        if self.context.error_form is answer_of:
            is_problem = wants_problem(exchange.headers.get(b"accept", b""))
            return answer_of(error, exchange.request_id, is_problem=is_problem)
        return self.context.error_form(error)

    async def _fail(self, exchange: Exchange, error: Exception) -> None:
        """Answer with an error, or cut off the answer that has begun.

        Raises the error if it is our fault and can no longer be answered.
        """
        if self.access is not None:
            self.access.trail.failed(exchange, error)
        request = f"{shortened(exchange.path, _PATH_CHARS_LOGGED)} ({exchange.request_id})"
        if exchange.is_begun:
            # An answer without its end closes the connection.
            exchange.status = BROKEN_OFF
            if not isinstance(error, TmsError):
                raise error
            _cut_off.add(f"{request}: {error}")
            return
        try:
            form = self.error_form(exchange, error)
        except Exception as second:  # the request is answered even if its page cannot be rendered
            form = self.context.error_form(second)
        status, body, content_type, headers, is_our_fault = form
        if is_our_fault:
            _failures_of(type(error).__name__).add(request, error)
        await exchange.answer(status, body, content_type, headers)


async def _check_query(exchange: Exchange, parameters: Collection[str]) -> None:
    """Raise `InvalidRequest` (unknown_query_parameter), after the body was received."""
    try:
        check_names(exchange.query, parameters)
    except InvalidRequest:
        if exchange.body_unread:
            await read_body(exchange)
        raise
