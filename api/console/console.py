"""The console of one server: its pages, made from templates, and what they have in common.

1. A page is shown, and a form is taken, only by an `Operation` of the console's table: the door
   checks its action as it does for REST. What a page shows it reads from the same services.
2. Each form carries its session's token against forgery; all are refused if it is another's, or if
   the console is to change nothing.
3. Without access control the console answers this machine alone.
4. Nothing in a page comes from another host, and nothing in it runs that is not one of `assets`.
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
from api.http.request_body import SMALL_BODY_BYTES_MAX, read_body
from tms import __version__
from tms.core.errors import InternalError, NotAuthenticated, NotPermitted, TmsError
from tms.core.runtime.clock import Clock

COOKIE = "tms_console"
_COOKIE = re.compile(rb"(?:^|;)[ \t]*tms_console=([A-Za-z0-9_-]{1,128})[ \t]*(?:;|$)")
"""The cookie among others. `http.cookies` takes time that grows with the square of some headers."""
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
    """Return the templates of the process. A thread compiles them, so that no page has to wait."""
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
    """The facts that all pages share, and how they are answered."""

    clock: Clock
    is_read_only: bool = False
    asks_who: bool
    """Whether who looks has to sign in."""
    sessions: BrowserSessions
    csrf: str = field(default_factory=partial(secrets.token_urlsafe, 24))
    """The token of forms where nobody signs in."""
    templates: Environment = field(default_factory=_environment)

    def session_of(self, exchange: Exchange) -> BrowserSession | None:
        """Return who is signed in by a request's cookie."""
        session_id = cookie_of(exchange)
        return None if session_id is None else self.sessions.find(session_id)

    async def show(self, handler: Handler, exchange: Exchange) -> None:
        """Answer with a page."""
        self._check_here(exchange)
        visit = Visit(exchange, self.session_of(exchange), {}, self.is_read_only)
        await self.answer(visit, await handler(visit))

    async def take(self, handler: Handler, exchange: Exchange, *, is_change: bool = True) -> None:
        """Take a form, and have the browser go on elsewhere.

        Raises `NotPermitted` if it is not a form of this console's, or it changes nothing.
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
        """Send what a handler gave."""
        exchange = visit.exchange
        if isinstance(answer, ShownPage):
            told = visit.query.get("told", "") if _is_led_here(exchange) else ""
            body = self.html(visit, answer, told).encode("utf-8", "replace")
            await exchange.answer(OK, body, _HTML, _HEADERS)
        elif isinstance(answer, Download):
            name = "".join(each if each.isalnum() or each in "._-" else "_" for each in answer.name)
            kept = f'attachment; filename="{name}"'.encode("ascii", "replace")
            headers = (*_HEADERS, (b"content-disposition", kept))
            await exchange.answer(OK, answer.content, b"application/octet-stream", headers)
        else:
            path, _, query = answer.place.partition("?")
            told = f"told={place(answer.told)[1:]}" if answer.told else ""
            asked = "&".join(each for each in (query, told) if each)
            await self.go(exchange, path + (f"?{asked}" if asked else ""))

    async def go(
        self, exchange: Exchange, to: str, headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        """Have the browser go to a place below the console."""
        location = (b"location", f"{root_of(exchange)}{to}".encode())
        await exchange.answer(SEE_OTHER, b"", _HTML, (*_HEADERS, location, *headers))

    def html(self, visit: Visit, page: ShownPage, told: str = "") -> str:
        """Return a page as HTML; `told` is what the console did before it led here."""
        session, who = visit.session, _who(visit)
        values: dict[str, Any] = {
            "visit": visit,
            "root": visit.root,
            "csrf": self.csrf if session is None else session.csrf,
            "told": told,
            "who": who,
            "is_known": who is not None or not self.asks_who,
            "now_ms": self.clock.now_ms(),
            **page.values,
        }
        return self.templates.get_template(page.template).render(values)

    def error(self, exchange: Exchange, error: Exception) -> ErrorAnswer:
        """Return the page that tells an error; who has to sign in is led there.

        A part that an open page asks for again has the page load anew, so that it is led there.
        """
        is_part = b"hx-request" in exchange.headers
        if isinstance(error, NotAuthenticated) and is_part:
            return ErrorAnswer(error.status, b"", _HTML, (*_HEADERS, (b"hx-refresh", b"true")))
        if isinstance(error, NotAuthenticated) and exchange.method in ("GET", "HEAD"):
            path = exchange.path.removeprefix(ROOT) or "/"
            asked = exchange.query.decode("latin-1")
            back = path + (f"?{asked}" if asked else "")
            to = f"{root_of(exchange)}{place('sign-in', back=back)}".encode()
            return ErrorAnswer(SEE_OTHER, b"", _HTML, (*_HEADERS, (b"location", to)))
        told = answer_of(error)
        known = error if isinstance(error, TmsError) else InternalError()
        values = {
            "title": HTTPStatus(known.status).phrase,
            "problem": known.problem,
            "detail": {
                name: shown.text(str(value)[:_DETAIL_CHARS]) for name, value in known.detail.items()
            },
        }
        visit = Visit(exchange, self.session_of(exchange), {}, self.is_read_only)
        body = self.html(visit, ShownPage("error.html", values)).encode("utf-8", "replace")
        kept = [each for each in told.headers if each[0] != b"www-authenticate"]
        return ErrorAnswer(known.status, body, _HTML, (*_HEADERS, *kept), told.is_our_fault)

    def _check_here(self, exchange: Exchange) -> None:
        """Raise `NotPermitted` if everybody may do everything, and it is asked from elsewhere."""
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
    """Return who looks, be it that another server has passed on who that is; None: nobody says."""
    if visit.session is not None:
        return visit.session.principal
    admission = visit.exchange.admission
    is_passed_on = admission is not None and admission.via is not None
    return admission.caller.principal if admission is not None and is_passed_on else None


def _is_led_here(exchange: Exchange) -> bool:
    """Whether the console itself led to a page, as far as a browser says: others tell nothing."""
    return exchange.headers.get(b"sec-fetch-site", b"same-origin") == b"same-origin"


def cookie_of(exchange: Exchange) -> str | None:
    """Return the id of the session that a request's cookie names."""
    header = exchange.headers.get(b"cookie")
    if header is None:
        return None
    found = _COOKIE.search(header)
    return None if found is None else found[1].decode()
