"""Reads a request's body: capped compressed and decompressed, and within a time.

A body announced as too large is refused before any of it is read. Nothing is kept of a body that
turns out too large, too slow or cut off: the error ends the request before it did anything.
"""

import asyncio

from api.content import is_gzip
from api.exchange import ClientGone, Exchange
from api.gunzip import Gunzip
from tms.core.errors import InvalidRequest, TooLarge


async def read_body(exchange: Exchange) -> bytes:
    """Return the body, decompressed.

    Raises `TooLarge` (request_too_large), `InvalidRequest` (body_too_slow, invalid_compression,
    unsupported_content_encoding), `ClientGone`.
    """
    bytes_max = exchange.context.limits.request_bytes_max
    announced = int(exchange.headers.get(b"content-length", b"0"))
    if announced > bytes_max:
        raise TooLarge("request_too_large", request_bytes_max=bytes_max, content_length=announced)
    encoding = exchange.headers.get(b"content-encoding")
    gunzip = Gunzip(bytes_max) if encoding is not None and is_gzip(encoding) else None
    deadlines = exchange.context.body_deadlines
    task = deadlines.enter()
    try:
        return await _collect(exchange, bytes_max, gunzip)
    except asyncio.CancelledError:
        if deadlines.absorb(task):
            raise InvalidRequest("body_too_slow", request_body_s_max=deadlines.seconds) from None
        raise
    finally:
        deadlines.leave(task)


async def _collect(exchange: Exchange, bytes_max: int, gunzip: Gunzip | None) -> bytes:
    part, more = await _next_part(exchange, bytes_max)
    if gunzip is None:
        if not more:
            return part
        body = bytearray(part)
        while more:
            part, more = await _next_part(exchange, bytes_max)
            body += part
        return bytes(body)
    gunzip.feed(part)
    while more:
        part, more = await _next_part(exchange, bytes_max)
        gunzip.feed(part)
    return gunzip.finish()


async def _next_part(exchange: Exchange, bytes_max: int) -> tuple[bytes, bool]:
    message = await exchange.receive()
    if message["type"] != "http.request":
        raise ClientGone
    part: bytes = message.get("body", b"")
    more: bool = message.get("more_body", False)
    exchange.bytes_in += len(part)
    if exchange.bytes_in > bytes_max:
        raise TooLarge("request_too_large", request_bytes_max=bytes_max)
    exchange.body_unread = more
    return part, more
