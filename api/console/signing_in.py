"""Signing in with a token or a password, and out."""

from base64 import b64encode
from collections.abc import Mapping

from api.console.console import COOKIE, Console, cookie_of
from api.console.row import Row
from api.console.visit import Answer, ShownPage, Visit, fields_of
from api.http.door.access_control import AccessControl
from api.http.exchange import Exchange
from api.http.request_body import read_body
from tms.core.errors import NotAuthenticated
from tms.security.credentials import Scheme
from tms.security.sessions import NEVER_MS

_FORM_BYTES_MAX = 64 * 1024
"""The largest form that a visitor may send before signing in."""
_PLACE_CHARS_MAX = 2_000


async def form(visit: Visit) -> Answer:
    """Show the form."""
    return ShownPage("sign_in.html", {"back": _back_of(visit.query.get("back", "")), "problem": ""})


async def sign_in(console: Console, access: AccessControl | None, exchange: Exchange) -> None:
    """Check a credential, and start a session. Raises `RateExceeded`.

    Attempts have the same limits as passwords everywhere else (`tms.security.passwords`).
    """
    form = fields_of(await read_body(exchange, _FORM_BYTES_MAX))
    back = _back_of(form.get("back", ""))
    if access is None:
        await console.go(exchange, back)
        return
    header = _header_of(form)
    try:
        session = await access.identify(exchange, header)
    except NotAuthenticated as error:
        problem = f"{error.problem.message} {error.detail.get('reason', '')}"
        page = ShownPage("sign_in.html", {"back": back, "problem": problem})
        await console.answer(Visit(exchange, None, {}, console.is_read_only), page)
        return
    before = cookie_of(exchange)
    if before is not None:
        console.sessions.end(before)  # a session that somebody else may have put there
    # The time of a verified password is a minute, but the door verifies it at each request.
    ends_ms = NEVER_MS if session.mechanism is Scheme.BASIC else session.ends_ms
    session_id = console.sessions.begin(header, session.identity.principal, ends_ms)
    await console.go(exchange, back, [_cookie(exchange, session_id, "")])


async def sign_out(console: Console, exchange: Exchange) -> None:
    """End the session."""
    session_id = cookie_of(exchange)
    if session_id is not None:
        console.sessions.end(session_id)
    await console.go(exchange, "/sign-in", [_cookie(exchange, "", "; Max-Age=0")])


def _header_of(form: Mapping[str, str]) -> bytes:
    """Return the value of `Authorization` for the credential in a form."""
    token = form.get("token", "").strip()
    if token:
        return b"Bearer " + token.encode("utf-8", "replace")
    pair = f"{form.get('name', '')}:{form.get('password', '')}"
    return b"Basic " + b64encode(pair.encode())


def _cookie(exchange: Exchange, session_id: str, more: str) -> tuple[bytes, bytes]:
    """Return the header that sets the cookie, for the paths of the console."""
    secure = "; Secure" if exchange.peer.scheme == "https" else ""
    value = f"{COOKIE}={session_id}; HttpOnly; SameSite=Strict{secure}{more}"
    return b"set-cookie", value.encode()


def _back_of(back: str) -> str:
    """Return the place to return to, or an empty one unless it is below the console."""
    is_place = back.startswith("/") and not back.startswith("//") and back.isascii()
    return back if is_place and back.isprintable() and len(back) < _PLACE_CHARS_MAX else ""


ROWS = (Row("SignInForm", "/sign-in", form, None),)
