"""What the headers say of bodies: their format, their encoding, what the client takes.

Headers repeat, so each distinct value is parsed once and kept.
"""

import re
from collections.abc import Callable
from email.message import Message
from functools import lru_cache

from tms.core.errors import InvalidRequest
from tms.wire.avro_bodies import AVRO
from tms.wire.bodies import BodyFormat, MessagesFormat
from tms.wire.json_bodies import JSON, JSON_BASE64
from tms.wire.media_types import ARROW_TYPE

_VALUES_KEPT = 256
_HEADER_CHARS_SHOWN = 100
_ZERO_QUALITY = re.compile(r"q=0(\.0{1,3})?")

_FORM = "application/x-www-form-urlencoded"
_EXTRA = "tms-messaging[arrow]"
ArrowDecoder = Callable[[bytes, int], list[bytes]]
"""`tms.arrow.decode_payloads`."""


def _parse(value: bytes) -> Message:
    parsed = Message()
    parsed["content-type"] = value.decode("latin-1")
    return parsed


@lru_cache(_VALUES_KEPT)
def format_of(content_type: bytes) -> BodyFormat:
    """Return the format that a Content-Type names. Raises `InvalidRequest`."""
    parsed = _parse(content_type)
    media_type = parsed.get_content_type()
    if media_type == AVRO.content_type:
        return AVRO
    charset = parsed.get_content_charset("utf-8")
    encoding = parsed.get_param("encoding")
    if media_type == JSON.content_type and charset in ("utf-8", "us-ascii"):
        if encoding is None:
            return JSON
        if encoding == "base64":
            return JSON_BASE64
    raise _unsupported(content_type)


@lru_cache(_VALUES_KEPT)
def check_json(content_type: bytes) -> None:
    """Raise `InvalidRequest` (unsupported_content_type) on a type that is neither JSON nor a form.

    Java's HttpURLConnection and curl say "form" of each body of which they are told nothing.
    """
    if content_type and _parse(content_type).get_content_type() not in (JSON.content_type, _FORM):
        raise _unsupported(content_type)


def _unsupported(content_type: bytes) -> InvalidRequest:
    shown = content_type.decode("latin-1")[:_HEADER_CHARS_SHOWN]
    return InvalidRequest("unsupported_content_type", content_type=shown)


def answer_format_of(accept: bytes, body_format: BodyFormat) -> MessagesFormat:
    """Return the format that Accept asks a poll's answer in: Arrow, or else that of the body.

    Raises `InvalidRequest` (not_acceptable) where it is Arrow, and that is not installed.
    """
    if not _takes_arrow(accept):
        return body_format
    try:
        from tms.arrow import ARROW  # noqa: PLC0415  an extra
    except ImportError:
        raise InvalidRequest("not_acceptable", accept=ARROW_TYPE, needs=_EXTRA) from None
    return ARROW


def arrow_decoder_of(content_type: bytes) -> ArrowDecoder | None:
    """Return what decodes messages from Arrow, where a Content-Type names that.

    Raises `InvalidRequest` (unsupported_content_type) where it is not installed.
    """
    if not _is_arrow(content_type):
        return None
    try:
        from tms.arrow import decode_payloads  # noqa: PLC0415  an extra
    except ImportError:
        raise InvalidRequest(
            "unsupported_content_type", content_type=ARROW_TYPE, needs=_EXTRA
        ) from None
    return decode_payloads


@lru_cache(_VALUES_KEPT)
def _is_arrow(content_type: bytes) -> bool:
    """Whether a Content-Type says a stream of Arrow's."""
    return _parse(content_type).get_content_type() == ARROW_TYPE


@lru_cache(_VALUES_KEPT)
def _takes_arrow(accept: bytes) -> bool:
    """Whether an Accept names Arrow's streams, and not with a quality of zero."""
    for item in accept.decode("latin-1").lower().split(","):
        media_type, _, parameters = item.partition(";")
        if media_type.strip() == ARROW_TYPE:
            return not _ZERO_QUALITY.fullmatch(parameters.replace(" ", ""))
    return False


def is_gzip(content_encoding: bytes) -> bool:
    """Whether a Content-Encoding says gzip, not none. Raises `InvalidRequest` on any other."""
    encoding = content_encoding.strip().lower()
    if encoding in (b"gzip", b"x-gzip"):
        return True
    if encoding in (b"", b"identity"):
        return False
    shown = content_encoding.decode("latin-1")[:_HEADER_CHARS_SHOWN]
    raise InvalidRequest("unsupported_content_encoding", content_encoding=shown)


@lru_cache(_VALUES_KEPT)
def takes_gzip(accept_encoding: bytes) -> bool:
    """Whether an Accept-Encoding lists gzip, and not with a quality of zero."""
    for item in accept_encoding.decode("latin-1").lower().split(","):
        coding, _, parameters = item.partition(";")
        if coding.strip() in ("gzip", "x-gzip"):
            return not _ZERO_QUALITY.fullmatch(parameters.replace(" ", ""))
    return False
