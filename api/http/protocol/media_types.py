"""The formats of bodies in headers: the request's, and those that the client accepts.

A value is parsed in time linear in its length. Clients repeat themselves, so the results of short
values are cached; long ones are parsed each time.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache, wraps
from importlib.util import find_spec
from typing import NamedTuple, TypeVar

from tms.core.errors import InvalidRequest
from tms.core.text.credentials import shortened
from tms.wire.avro_bodies import AVRO
from tms.wire.avro_frames import AVRO_FRAMES
from tms.wire.bodies import BodyFormat, MessagesFormat
from tms.wire.cloud_events import BATCH_TYPE
from tms.wire.json_bodies import JSON
from tms.wire.media_types import ARROW_TYPE, POLLED_ARROW_TYPE, PROBLEM_TYPE

_HEADER_CHARS_SHOWN = 100
_JSON_OR_FORM = (JSON.content_type, "application/x-www-form-urlencoded")
_EXTRA = "tms-messaging[arrow]"
_AVRO_VERSIONS = {"1": AVRO, "2": AVRO_FRAMES}
_ARROW_VERSION = "2"
ArrowDecoder = Callable[[bytes, int], list[bytes]]
"""`tms.arrow.published.decode_bodies`."""

T = TypeVar("T")
KEPT_BYTES_MAX = 512
"""The most bytes of a value whose result is cached."""
_VALUES_KEPT = 256
_PARTS = re.compile(r'(?:[^;"]++|"(?:[^"\\]|\\.)*+"?)++', re.DOTALL)
"""A part between semicolons. A semicolon within quotes does not end a part."""
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def kept(parse: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """Return `parse` with a cache of its results for short values."""
    of_short = lru_cache(_VALUES_KEPT)(parse)

    @wraps(parse)
    def of(value: bytes) -> T:
        return of_short(value) if len(value) <= KEPT_BYTES_MAX else parse(value)

    return of


class MediaType(NamedTuple):
    """A media type, or a range of them, with its parameters."""

    name: str
    """In lower case: `application/json`."""
    parameters: Mapping[str, str]
    """By names in lower case; the first one of each name."""


def media_type_of(value: str) -> MediaType:
    """Return the media type of a Content-Type, or of an item of an Accept."""
    name, _, rest = value.partition(";")
    parameters: dict[str, str] = {}
    for part in _PARTS.findall(rest) if '"' in rest else rest.split(";"):
        key, is_given, parameter = part.partition("=")
        if is_given:
            parameters.setdefault(key.strip().lower(), _unquoted(parameter.strip()))
    return MediaType(name.strip().lower(), parameters)


def media_types_of(accept: bytes) -> Iterator[MediaType]:
    """Yield the items of an Accept."""
    return (media_type_of(item) for item in accept.decode("latin-1").split(",") if item.strip())


def _unquoted(value: str) -> str:
    if 1 < len(value) <= KEPT_BYTES_MAX and value[0] == value[-1] == '"':
        return _ESCAPED.sub(r"\1", value[1:-1])
    return value


def _parse(value: bytes) -> MediaType:
    return media_type_of(value.decode("latin-1"))


@kept
def _name_of(content_type: bytes) -> str:
    return _parse(content_type).name


@kept
def format_of(content_type: bytes) -> BodyFormat:
    """Return the format that a Content-Type names. Raises `InvalidRequest`."""
    media_type, parameters = _parse(content_type)
    if media_type == AVRO.content_type:
        avro = _AVRO_VERSIONS.get(parameters.get("version", "1"))
        if avro is None:
            raise _unsupported(content_type)
        return avro
    charset = parameters.get("charset", "utf-8").lower()
    is_text = "encoding" not in parameters and charset in ("utf-8", "us-ascii")
    if media_type == JSON.content_type and is_text:
        return JSON
    raise _unsupported(content_type)


def check_only_json(headers: Mapping[bytes, bytes], body: bytes | None) -> None:
    """Raise `InvalidRequest` unless headers send and accept JSON; see `Exchange`."""
    content_type, accept = headers.get(b"content-type"), headers.get(b"accept")
    if accept is not None:
        _check_takes_json(accept)
    if content_type is not None:
        _check_names_json(content_type)
    elif body != b"":
        raise InvalidRequest(
            "unsupported_content_type", content_type=None, expected=JSON.content_type
        )


@kept
def _check_names_json(content_type: bytes) -> None:
    if format_of(content_type) is not JSON:
        raise _unsupported(content_type, expected=JSON.content_type)


@kept
def _check_takes_json(accept: bytes) -> None:
    best_type_of(accept, (JSON.content_type,))


@kept
def check_json(content_type: bytes) -> None:
    """Raise `InvalidRequest` (unsupported_content_type) on a type that is neither JSON nor a form.

    "Form" is the default type of Java's HttpURLConnection and of curl.
    """
    if content_type:
        check_type(content_type, _JSON_OR_FORM)


def check_type(content_type: bytes, accepted: Collection[str]) -> None:
    """Raise `InvalidRequest` (unsupported_content_type) on a type that is not `accepted`."""
    if _name_of(content_type) not in accepted:
        raise _unsupported(content_type)


def _unsupported(content_type: bytes, **detail: str) -> InvalidRequest:
    return InvalidRequest("unsupported_content_type", content_type=_shown(content_type), **detail)


def _shown(value: bytes) -> str:
    return shortened(value.decode("latin-1"), _HEADER_CHARS_SHOWN)


def best_type_of(accept: bytes, offered: Sequence[str]) -> str:
    """Return the type of `offered` that an Accept prefers; of equals, the first.

    Raises `InvalidRequest` (not_acceptable).
    """
    accepted = list(media_types_of(accept))
    quality = {name: _quality_of(name, accepted) for name in offered}
    best = max(offered, key=lambda name: quality[name])
    if not quality[best] and accepted:
        raise InvalidRequest("not_acceptable", accept=_shown(accept), expected=" or ".join(offered))
    return best


def _quality_of(offered: str, accepted: Sequence[MediaType]) -> float:
    """Return the quality of a type, from the most specific item that matches it."""
    main = offered.partition("/")[0]
    for name in (offered, f"{main}/*", "*/*"):
        named = [item for item in accepted if item.name == name]
        if named:
            return max(_quality(item.parameters) for item in named)
    return 0.0


def _quality(parameters: Mapping[str, str]) -> float:
    """Return the quality of an item of an Accept field; 0 if it is not acceptable."""
    try:
        return float(parameters.get("q", "1"))
    except ValueError:
        return 1.0


def answer_format_of(accept: bytes, body_format: BodyFormat) -> MessagesFormat:
    """Return the format of a poll's answer: Arrow if Accept requests it, else that of the body.

    Raises `InvalidRequest` (not_acceptable) if it is Arrow, and Arrow is not installed, or the
    version is unknown.
    """
    version = _arrow_version(accept)
    if version is None:
        return body_format
    try:
        from tms.arrow.polled import ARROW  # noqa: PLC0415  an extra
    except ImportError:
        raise InvalidRequest("not_acceptable", accept=ARROW_TYPE, needs=_EXTRA) from None
    if version != _ARROW_VERSION:
        raise InvalidRequest("not_acceptable", accept=_shown(accept), expected=POLLED_ARROW_TYPE)
    return ARROW


@kept
def wants_events(accept: bytes) -> bool:
    """Whether an Accept names a batch of CloudEvents."""
    return _names(accept, BATCH_TYPE)


@kept
def wants_problem(accept: bytes) -> bool:
    """Whether an Accept names the errors of RFC 9457."""
    return _names(accept, PROBLEM_TYPE)


def _names(accept: bytes, name: str) -> bool:
    return any(
        media_type == name and _quality(parameters) != 0
        for media_type, parameters in media_types_of(accept)
    )


def has_arrow() -> bool:
    """Whether Arrow is available for messages, without loading it."""
    return find_spec("pyarrow") is not None


@kept
def wants_decoded(accept: bytes) -> bool:
    """Whether an Accept requests JSON of the values, decoded by their schemas."""
    for media_type, parameters in media_types_of(accept):
        if media_type == JSON.content_type and parameters.get("decode", "").lower() == "true":
            return _quality(parameters) != 0
    return False


def arrow_decoder_of(content_type: bytes) -> ArrowDecoder | None:
    """Return the decoder of messages if a Content-Type names Arrow.

    Raises `InvalidRequest` (unsupported_content_type) if it is not installed.
    """
    if _name_of(content_type) != ARROW_TYPE:
        return None
    try:
        from tms.arrow.published import decode_bodies  # noqa: PLC0415  an extra
    except ImportError:
        raise InvalidRequest(
            "unsupported_content_type", content_type=ARROW_TYPE, needs=_EXTRA
        ) from None
    return decode_bodies


@kept
def _arrow_version(accept: bytes) -> str | None:
    """Return the version of Arrow's streams that an Accept requests; None for other types."""
    for media_type, parameters in media_types_of(accept):
        if media_type == ARROW_TYPE and _quality(parameters) != 0:
            return parameters.get("version", _ARROW_VERSION)
    return None


def is_gzip(content_encoding: bytes) -> bool:
    """Whether a Content-Encoding is gzip or none. Raises `InvalidRequest` on any other."""
    encoding = content_encoding.strip().lower()
    if encoding in (b"gzip", b"x-gzip"):
        return True
    if encoding in (b"", b"identity"):
        return False
    raise InvalidRequest("unsupported_content_encoding", content_encoding=_shown(content_encoding))


@kept
def takes_gzip(accept_encoding: bytes) -> bool:
    """Whether an Accept-Encoding lists gzip, and not with a quality of zero."""
    for item in accept_encoding.decode("latin-1").lower().split(","):
        if "gzip" in item and (coding := media_type_of(item)).name in ("gzip", "x-gzip"):
            return _quality(coding.parameters) != 0
    return False
