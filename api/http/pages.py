"""Lets an ASGI application answer pages for people, with the same access control as the rest.

A page is small, so it is collected and sent whole.
"""

from starlette.types import ASGIApp, Message, Scope

from api.http.exchange import ClientGone, Exchange
from api.http.operation import Handler
from api.http.request_body import read_body


def page_of(app: ASGIApp) -> Handler:
    """Return a handler that answers with `app`."""

    async def handle(exchange: Exchange) -> None:
        body = await read_body(exchange)
        received = False
        status, headers, parts = 500, [], []

        async def receive() -> Message:
            nonlocal received
            if received:
                await exchange.gone()
                return {"type": "http.disconnect"}
            received = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status, headers = message["status"], list(message.get("headers", ()))
            else:
                parts.append(message.get("body", b""))

        await app(_scope(exchange), receive, send)
        if not parts:
            raise ClientGone
        kept = [(name, value) for name, value in headers if name.lower() != b"content-length"]
        await exchange.answer(status, b"".join(parts), None, kept)

    return handle


def _scope(exchange: Exchange) -> Scope:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.0" if exchange.fields.is_http_10 else "1.1",
        "method": exchange.method,
        "scheme": exchange.peer.scheme,
        "path": exchange.path,
        "raw_path": exchange.path.encode("latin-1"),
        "query_string": exchange.query,
        "root_path": "",
        "headers": exchange.fields.lines,
        "client": None,
        "server": None,
        "exchange": exchange,
    }
