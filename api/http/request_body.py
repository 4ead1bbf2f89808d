"""Reads a request's body, with a limit on its compressed and decompressed size, and on its time.

A body announced as too large is refused before any of it is read. A body that turns out too large,
too slow or cut off is dropped: the error ends the request before it has any effect.
"""

from api.http.exchange import Exchange
from api.http.protocol.gunzip import Gunzip
from api.http.protocol.media_types import is_gzip
from tms.core.errors import TooLarge

SMALL_BODY_BYTES_MAX = 1024 * 1024
"""The limit of bodies that carry neither messages nor changes."""


async def read_body(exchange: Exchange, bytes_max: int | None = None) -> bytes:
    """Return the body, decompressed; `bytes_max` lowers the limit on its size.

    Raises `TooLarge` (request_too_large, request_too_compressed), `InvalidRequest` (body_too_slow,
    malformed_request, invalid_compression, unsupported_content_encoding), `QueueFull`,
    `ClientGone`.
    """
    request_bytes_max = exchange.context.limits.request_bytes_max
    bytes_max = request_bytes_max if bytes_max is None else min(bytes_max, request_bytes_max)
    whole = exchange.whole_body
    encoding = exchange.headers.get(b"content-encoding")
    is_compressed = encoding is not None and is_gzip(encoding)
    if whole is None:
        check_announced(exchange, bytes_max)
        return await _collect(exchange, bytes_max, is_compressed=is_compressed)
    if len(whole) > bytes_max:
        raise TooLarge("request_too_large", request_bytes_max=bytes_max, content_length=len(whole))
    if not is_compressed:
        return whole
    gunzip = Gunzip(bytes_max, exchange.context.limits.request_gzip_ratio_max)
    gunzip.feed(whole)
    return gunzip.finish()


async def read_whole(exchange: Exchange) -> None:
    """Read the whole body as sent, compressed or not, into memory. Raises as `read_body`.

    Its memory counts while it arrives.
    """
    bytes_max = exchange.context.limits.request_bytes_max
    exchange.whole_body = await _collect(exchange, bytes_max, is_compressed=False)


def check_announced(exchange: Exchange, bytes_max: int) -> None:
    """Raise `TooLarge` (request_too_large) if the announced length is over the limit."""
    announced = exchange.fields.body_bytes
    if announced > bytes_max:
        raise TooLarge("request_too_large", request_bytes_max=bytes_max, content_length=announced)


async def _collect(exchange: Exchange, bytes_max: int, *, is_compressed: bool) -> bytes:
    """Return a body that arrives in parts."""
    ratio_max = exchange.context.limits.request_gzip_ratio_max
    gunzip = Gunzip(bytes_max, ratio_max) if is_compressed else None
    body = bytearray()
    memory = exchange.context.body_memory
    counted = entered = 0
    arriving = None if exchange.use is None else exchange.use.arriving_bytes
    try:
        while exchange.body_unread:
            part = await exchange.receive()
            if exchange.bytes_in > bytes_max:
                raise TooLarge("request_too_large", request_bytes_max=bytes_max)
            if gunzip is None:
                body += part
            else:
                gunzip.feed(part)
            counted = memory.grow(counted, len(body) if gunzip is None else len(gunzip))
            if arriving is not None:
                # It may exceed the limit if no other body is arriving.
                enter = arriving.enter_anyway if arriving.count == entered else arriving.enter
                enter(len(part))
                entered += len(part)
        return bytes(body) if gunzip is None else gunzip.finish()
    finally:
        memory.free(counted)
        if arriving is not None:
            arriving.leave(entered)
