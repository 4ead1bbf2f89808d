"""The console of one server: renders pages from templates, and accepts forms.

1. Every page and form is an `Operation` of the console's table: the door checks its action as it
   does for REST. Pages read their data from the services that REST uses.
2. Each form carries its session's token against forgery. A form with another token is refused, and
   so is every form if the console is read-only.
3. Without access control the console only answers requests from this machine.
4. Nothing in a page comes from another host, and only scripts of `assets` run in it.
"""

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, partial
from hmac import compare_digest
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from api.console import shown
from api.console.browser_sessions import BrowserSession, BrowserSessions
from api.console.visit import (
    ROOT,
    Done,
    Download,
    Handler,
    ShownPage,
    Visit,
    fields_of,
    place,
    root_of,
)
from api.http.errors import ErrorAnswer, answer_of
from api.http.exchange import OK, SEE_OTHER, Exchange
from api.http.operation import Handler as RestHandler
from api.http.request_body import SMALL_BODY_BYTES_MAX, read_body
from tms import __version__
from tms.core.errors import InternalError, NotAuthenticated, NotPermitted, TmsError
from tms.core.runtime.clock import Clock

COOKIE = "tms_console"
_COOKIE = re.compile(rb"(?:^|;)[ \t]*tms_console=([A-Za-z0-9_-]{1,128})[ \t]*(?:;|$)")
"""Finds our cookie among others. `http.cookies` takes quadratic time for some headers."""
_HERE = Path(__file__).parent
_HTML = b"text/html; charset=utf-8"
_DETAIL_CHARS = 2_000
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    b"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


@cache
def _environment() -> Environment:
    """Return the process's templates. A thread compiles them, so that the first page is fast."""
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ("number", "thousands", "size", "span", "moment", "text", "prose", "payload")
    environment.filters |= {name: getattr(shown, name) for name in names}
    environment.globals |= {"place": place, "version": __version__}
    Thread(target=_compile, args=(environment,), name="console-templates", daemon=True).start()
    return environment


def _compile(environment: Environment) -> None:
    for name in environment.list_templates():
        environment.get_template(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """Answers requests for pages and forms, with what all pages share."""

    clock: Clock
    is_read_only: bool = False
    asks_who: bool
    """Whether visitors have to sign in: access control is on."""
    sessions: BrowserSessions
    csrf: str = field(default_factory=partial(secrets.token_urlsafe, 24))
    """The token of forms if nobody signs in."""
    templates: Environment = field(default_factory=_environment)

    def session_of(self, exchange: Exchange) -> BrowserSession | None:
        """Return the session of a request's cookie, if there is one."""
        session_id = cookie_of(exchange)
        return None if session_id is None else self.sessions.find(session_id)

    async def show(self, handler: Handler, exchange: Exchange) -> None:
        """Answer with a page."""
        self._check_here(exchange)
        visit = Visit(exchange, self.session_of(exchange), {}, self.is_read_only)
        await self.answer(visit, await handler(visit))

    async def stream(self, handler: RestHandler, exchange: Exchange) -> None:
        """Answer with the events that REST would send."""
        self._check_here(exchange)
        await handler(exchange)

    async def take(self, handler: Handler, exchange: Exchange, *, is_change: bool = True) -> None:
        """Handle a form, and redirect the browser.

        Raises `NotPermitted` if another site made the form, or if the console is read-only.
        """
        form = fields_of(await read_body(exchange, SMALL_BODY_BYTES_MAX))
        self._check_here(exchange)
        session = self.session_of(exchange)
        if is_change:
            csrf = self.csrf if session is None else session.csrf
            if self.is_read_only or not compare_digest(
                form.get("csrf", "").encode(), csrf.encode()
            ):
                action = "change in the console"
                reason = "it is read-only" if self.is_read_only else "load the page again"
                raise NotPermitted(action=action, resource="the server", reason=reason)
        visit = Visit(exchange, session, form, self.is_read_only)
        await self.answer(visit, await handler(visit))

    async def answer(self, visit: Visit, answer: ShownPage | Done | Download) -> None:
        """Send a handler's answer."""
        exchange = visit.exchange
        if isinstance(answer, ShownPage):
            notice = visit.query.get("told", "") if _is_own_redirect(exchange) else ""
            body = self.html(visit, answer, notice).encode("utf-8", "replace")
            await exchange.answer(OK, body, _HTML, _HEADERS)
        elif isinstance(answer, Download):
            name = "".join(char if char.isalnum() or char in "._-" else "_" for char in answer.name)
            kept = f'attachment; filename="{name}"'.encode("ascii", "replace")
            headers = (*_HEADERS, (b"content-disposition", kept))
            await exchange.answer(OK, answer.content, b"application/octet-stream", headers)
        else:
            path, _, query = answer.place.partition("?")
            notice = f"told={place(answer.notice)[1:]}" if answer.notice else ""
            query = "&".join(part for part in (query, notice) if part)
            await self.go(exchange, path + (f"?{query}" if query else ""))

    async def go(
        self, exchange: Exchange, to: str, headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        """Redirect the browser to a place below the console."""
        location = (b"location", f"{root_of(exchange)}{to}".encode())
        await exchange.answer(SEE_OTHER, b"", _HTML, (*_HEADERS, location, *headers))

    def html(self, visit: Visit, page: ShownPage, notice: str = "") -> str:
        """Return a page as HTML; `notice` says what the form before it did."""
        session, who = visit.session, _who(visit)
        values: dict[str, Any] = {
            "visit": visit,
            "root": visit.root,
            "csrf": self.csrf if session is None else session.csrf,
            "notice": notice,
            "who": who,
            "is_known": who is not None or not self.asks_who,
            "now_ms": self.clock.now_ms(),
            **page.values,
        }
        return self.templates.get_template(page.template).render(values)

    def error(self, exchange: Exchange, error: Exception) -> ErrorAnswer:
        """Return the page that shows an error; visitors who have to sign in are redirected.

        If an open page refreshes a part of itself, the whole page is reloaded, and so redirected.
        """
        is_part = b"hx-request" in exchange.headers
        if isinstance(error, NotAuthenticated) and is_part:
            return ErrorAnswer(error.status, b"", _HTML, (*_HEADERS, (b"hx-refresh", b"true")))
        if isinstance(error, NotAuthenticated) and exchange.method in ("GET", "HEAD"):
            path = exchange.path.removeprefix(ROOT) or "/"
            query = exchange.query.decode("latin-1")
            back = path + (f"?{query}" if query else "")
            to = f"{root_of(exchange)}{place('sign-in', back=back)}".encode()
            return ErrorAnswer(SEE_OTHER, b"", _HTML, (*_HEADERS, (b"location", to)))
        answer = answer_of(error)
        problem = error if isinstance(error, TmsError) else InternalError()
        values = {
            "title": HTTPStatus(problem.status).phrase,
            "problem": problem.problem,
            "detail": {
                name: shown.text(str(value)[:_DETAIL_CHARS])
                for name, value in problem.detail.items()
            },
        }
        visit = Visit(exchange, self.session_of(exchange), {}, self.is_read_only)
        body = self.html(visit, ShownPage("error.html", values)).encode("utf-8", "replace")
        headers = [pair for pair in answer.headers if pair[0] != b"www-authenticate"]
        return ErrorAnswer(problem.status, body, _HTML, (*_HEADERS, *headers), answer.is_our_fault)

    def _check_here(self, exchange: Exchange) -> None:
        """Raise `NotPermitted` for a request from another machine if there is no access control."""
        if self.asks_who:
            return
        address = exchange.address
        try:
            is_here = not address or ip_address(address.partition("%")[0]).is_loopback
        except ValueError:
            is_here = False
        if not is_here or exchange.connection.is_of_server:
            reason = "without `auth` only the server's own machine can open the console"
            raise NotPermitted(action="open", resource="the console", reason=reason)


def _who(visit: Visit) -> str | None:
    """Return the visitor's principal, which a forwarding server may have named; None if unknown."""
    if visit.session is not None:
        return visit.session.principal
    admission = visit.exchange.admission
    is_passed_on = admission is not None and admission.via is not None
    return admission.caller.principal if admission is not None and is_passed_on else None


def _is_own_redirect(exchange: Exchange) -> bool:
    """Whether the console itself redirected here, by the browser's word; others get no notice."""
    return exchange.headers.get(b"sec-fetch-site", b"same-origin") == b"same-origin"


def cookie_of(exchange: Exchange) -> str | None:
    """Return the id of the session that a request's cookie names."""
    header = exchange.headers.get(b"cookie")
    if header is None:
        return None
    match = _COOKIE.search(header)
    return None if match is None else match[1].decode()
