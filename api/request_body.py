"""Reads a request's body: capped compressed and decompressed, and within a time.

A body announced as too large is refused before any of it is read. Nothing is kept of a body that
turns out too large, too slow or cut off: the error ends the request before it did anything.
"""

import asyncio

from starlette.types import Message

from api.content import is_gzip
from api.exchange import ClientGone, Exchange
from api.gunzip import Gunzip
from tms.core.errors import InvalidRequest, TooLarge

SMALL_BODY_BYTES_MAX = 1024 * 1024
"""The cap of bodies that carry neither messages nor changes."""


async def read_body(exchange: Exchange, bytes_max: int | None = None) -> bytes:
    """Return the body, decompressed, of `bytes_max` bytes at most where that is less than any may.

    Raises `TooLarge` (request_too_large), `InvalidRequest` (body_too_slow, invalid_compression,
    unsupported_content_encoding), `QueueFull`, `ClientGone`.
    """
    request_bytes_max = exchange.context.limits.request_bytes_max
    bytes_max = request_bytes_max if bytes_max is None else min(bytes_max, request_bytes_max)
    whole = exchange.whole_body
    if whole is None or len(whole) > bytes_max:
        check_announced(exchange, bytes_max)
    if whole is not None:
        return whole
    encoding = exchange.headers.get(b"content-encoding")
    gunzip = Gunzip(bytes_max) if encoding is not None and is_gzip(encoding) else None
    deadlines = exchange.context.body_deadlines
    task = deadlines.enter()
    try:
        message = await exchange.receive()
        if gunzip is None and not message.get("more_body", False):
            return _part(exchange, message, bytes_max)
        return await _collect(exchange, message, bytes_max, gunzip)
    except asyncio.CancelledError:
        if deadlines.absorb(task):
            raise InvalidRequest("body_too_slow", request_body_s_max=deadlines.seconds) from None
        raise
    finally:
        deadlines.leave(task)


def check_announced(exchange: Exchange, bytes_max: int) -> None:
    """Raise `TooLarge` (request_too_large) where the body is announced as larger than it may be."""
    announced = int(exchange.headers.get(b"content-length", b"0"))
    if announced > bytes_max:
        raise TooLarge("request_too_large", request_bytes_max=bytes_max, content_length=announced)


async def _collect(
    exchange: Exchange, message: Message, bytes_max: int, gunzip: Gunzip | None
) -> bytes:
    """Return the body whose first part is `message`."""
    body = bytearray()
    arriving = exchange.context.arriving
    counted = 0
    try:
        while True:
            part = _part(exchange, message, bytes_max)
            if gunzip is None:
                body += part
            else:
                gunzip.feed(part)
            if not exchange.body_unread:
                return bytes(body) if gunzip is None else gunzip.finish()
            size = len(body) if gunzip is None else len(gunzip)
            arriving.add(size - counted)
            counted = size
            message = await exchange.receive()
    finally:
        arriving.remove(counted)


def _part(exchange: Exchange, message: Message, bytes_max: int) -> bytes:
    if message["type"] != "http.request":
        raise ClientGone
    part: bytes = message.get("body", b"")
    exchange.bytes_in += len(part)
    if exchange.bytes_in > bytes_max:
        raise TooLarge("request_too_large", request_bytes_max=bytes_max)
    exchange.body_unread = message.get("more_body", False)
    return part
