"""Puts the console beside the service: its table of operations, below `/console`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from api.console import (
    access,
    assets,
    audit,
    cleanup,
    cluster,
    dead_letters,
    message,
    messages,
    namespaces,
    overview,
    reader,
    readers,
    scheduled,
    schemas,
    signing_in,
    topic,
    topics,
    transactions,
)
from api.console.browser_sessions import BrowserSessions
from api.console.console import Console
from api.console.row import Row
from api.console.visit import ROOT
from api.http.application import Application
from api.http.door.guarded import DecidedBy
from api.http.endpoint import Endpoint
from api.http.errors import ErrorAnswer
from api.http.exchange import SEE_OTHER, Exchange
from api.http.operation import Handler, Operation
from api.http.router import Route
from tms.core.services.schemas import AsyncSchemas
from tms.security.resources import Action

ROWS: Sequence[Row] = (
    *overview.ROWS,
    *topics.ROWS,
    *topic.ROWS,
    *messages.ROWS,
    *message.ROWS,
    *scheduled.ROWS,
    *cluster.ROWS,
    *namespaces.ROWS,
    *cleanup.ROWS,
    *access.ROWS,
    *audit.ROWS,
    *dead_letters.ROWS,
    *transactions.ROWS,
    *readers.ROWS,
    *reader.ROWS,
    *signing_in.ROWS,
)


_REST_STREAM = "/v1/namespaces/any/topics/any/stream"
_STREAM = "/namespaces/{namespace}/topics/{topic}/stream"


class ConsoleEndpoint(Endpoint):
    """An endpoint that recognizes callers by their cookie, and shows errors as pages."""

    __slots__ = ("_console",)

    def __init__(self, console: Console, *arguments: Any) -> None:
        """Answer requests of a console; the other arguments are those of any endpoint."""
        super().__init__(*arguments)
        self._console = console

    async def serve(self, exchange: Exchange) -> None:
        """Answer one request.

        Without access control a console only answers requests of its own machine, so no other
        server can forward one. Then the browser is redirected to the server that has the page.
        """
        if self.routing is not None and not self._console.asks_who:
            leader = self.routing.leader_elsewhere(exchange)
            if leader is not None:
                await exchange.send_elsewhere(leader)
                return
        session = self._console.session_of(exchange)
        if session is not None:
            exchange.authorization = session.authorization
        await super().serve(exchange)

    def error_form(self, exchange: Exchange, error: Exception) -> ErrorAnswer:
        """Return the page that shows an error."""
        return self._console.error(exchange, error)


def beside(
    app: Application,
    *,
    is_read_only: bool = False,
    registry: AsyncSchemas | None = None,
    sessions: BrowserSessions | None = None,
) -> Application:
    """Add the console to an application below `/console`, and redirect browsers there from `/`.

    `registry` is the server's, if it has one; it does not check callers itself. Several
    applications of one server share `sessions`.
    """
    context = app.context
    sessions = sessions or BrowserSessions(context.clock)
    context.memory.show("console_sessions", lambda: len(sessions))
    console = Console(
        clock=context.clock,
        is_read_only=is_read_only,
        asks_who=context.access is not None,
        sessions=sessions,
    )
    endpoint = partial(ConsoleEndpoint, console)
    own = Application(context, app.metrics, operations(console, app, registry), endpoint=endpoint)
    app.routes.mount_whole(ROOT, own.routes)
    first = app.routes.find("GET", "/").target.operation
    assert first is not None, "the service has a first page for programs"
    leading = replace(first, handler=partial(_lead_browsers, first.handler))
    target = Endpoint(leading.handler, context, app.metrics.of("consoleLead"), leading)
    app.routes.replace(Route("GET", "/", target))
    return app


async def _lead_browsers(otherwise: Handler, exchange: Exchange) -> None:
    """Redirect clients that accept HTML to the console."""
    if b"text/html" in exchange.headers.get(b"accept", b""):
        await exchange.answer(SEE_OTHER, b"", None, [(b"location", ROOT[1:].encode())])
    else:
        await otherwise(exchange)


def operations(
    console: Console, app: Application, registry: AsyncSchemas | None
) -> Iterator[Operation]:
    """Yield the console's operations."""
    for row in (*ROWS, *schemas.rows_with(registry)):
        handler: Handler = partial(console.show, row.handler)
        if row.is_form:
            handler = partial(console.take, row.handler, is_change=row.is_change)
        yield _operation(
            row.name,
            row.path,
            handler,
            action=row.action,
            decided_by=row.decided_by,
            is_form=row.is_form,
            is_always_audited=row.is_form and row.is_change,
            is_download=row.is_download,
        )
    rest = app.routes.find("GET", _REST_STREAM).target.operation
    assert rest is not None, "REST has streams"
    stream = partial(console.stream, rest.handler)
    yield _operation("Stream", _STREAM, stream, action=rest.action, is_endless=True)
    sign_in = partial(signing_in.sign_in, console, app.context.access)
    sign_out = partial(signing_in.sign_out, console)
    yield _operation("Sign-In", "/sign-in", sign_in, is_form=True)
    yield _operation("Sign-Out", "/sign-out", sign_out, is_form=True)
    yield _operation("File", "/assets/{name}", assets.serve)


def _operation(
    name: str,
    path: str,
    handler: Handler,
    *,
    action: Action | None = None,
    decided_by: DecidedBy = DecidedBy.PATH,
    is_form: bool = False,
    is_always_audited: bool = False,
    is_download: bool = False,
    is_endless: bool = False,
) -> Operation:
    return Operation(
        name=f"console{name}",
        is_always_audited=is_always_audited,
        action=action,
        decided_by=decided_by,
        method="POST" if is_form else "GET",
        path=path or "/",
        handler=handler,
        tag="Console",
        summary=name,
        description="A page of the console.",
        success="The page.",
        request={} if is_form else None,
        is_page=not is_form,
        is_compressed=not (is_download or is_endless),
        is_endless=is_endless,
        takes_any_query=True,
    )
