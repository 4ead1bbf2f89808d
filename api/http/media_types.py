"""What the headers say of bodies: their format, their encoding, what the client takes.

Headers repeat, so what each short value says is kept.
"""

import re
from collections.abc import Callable, Mapping

from api.http.header_values import MediaType, kept, media_type_of, media_types_of
from tms.core.credentials import shortened
from tms.core.errors import InvalidRequest
from tms.wire.avro_bodies import AVRO
from tms.wire.avro_frames import AVRO_FRAMES
from tms.wire.bodies import BodyFormat, MessagesFormat
from tms.wire.json_bodies import JSON, JSON_BASE64, JsonFormat
from tms.wire.media_types import ARROW_TYPE

_HEADER_CHARS_SHOWN = 100
_ZERO = re.compile(r"0(\.0{1,3})?")

_FORM = "application/x-www-form-urlencoded"
_EXTRA = "tms-messaging[arrow]"
_AVRO_VERSIONS = {"1": AVRO, "2": AVRO_FRAMES}
ArrowDecoder = Callable[[bytes, int], list[bytes]]
"""`tms.arrow.published.decode_bodies`."""


def _parse(value: bytes) -> MediaType:
    return media_type_of(value.decode("latin-1"))


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
    encoding = parameters.get("encoding")
    if media_type == JSON.content_type and charset in ("utf-8", "us-ascii"):
        if encoding is None:
            return JSON
        if encoding == "base64":
            return JSON_BASE64
    raise _unsupported(content_type)


def json_format_of(headers: Mapping[bytes, bytes], body: bytes | None) -> JsonFormat:
    """Return the form of JSON that headers name, as `Exchange.json_format`."""
    content_type, accept = headers.get(b"content-type"), headers.get(b"accept")
    if accept is not None:
        _check_takes_json(accept)
    if content_type is not None:
        return _named_json(content_type)
    if body == b"":
        return JSON
    raise InvalidRequest("unsupported_content_type", content_type=None, expected=JSON.content_type)


@kept
def _named_json(content_type: bytes) -> JsonFormat:
    body_format = format_of(content_type)
    if not isinstance(body_format, JsonFormat):
        raise _unsupported(content_type, expected=JSON.content_type)
    return body_format


@kept
def _check_takes_json(accept: bytes) -> None:
    """Raise `InvalidRequest` (not_acceptable) if an Accept names Avro and nothing else."""
    named = {each.name for each in media_types_of(accept) if not _is_unwanted(each.parameters)}
    if named == {AVRO.content_type}:
        raise _not_acceptable(accept, expected=JSON.content_type)


@kept
def check_json(content_type: bytes) -> None:
    """Raise `InvalidRequest` (unsupported_content_type) on a type that is neither JSON nor a form.

    Java's HttpURLConnection and curl say "form" of each body of which they are told nothing.
    """
    if content_type and _parse(content_type).name not in (JSON.content_type, _FORM):
        raise _unsupported(content_type)


def _unsupported(content_type: bytes, **detail: str) -> InvalidRequest:
    shown = shortened(content_type.decode("latin-1"), _HEADER_CHARS_SHOWN)
    return InvalidRequest("unsupported_content_type", content_type=shown, **detail)


def _not_acceptable(accept: bytes, **detail: str) -> InvalidRequest:
    shown = shortened(accept.decode("latin-1"), _HEADER_CHARS_SHOWN)
    return InvalidRequest("not_acceptable", accept=shown, **detail)


def answer_format_of(accept: bytes, body_format: BodyFormat) -> MessagesFormat:
    """Return the format that Accept asks a poll's answer in: Arrow, or else that of the body.

    Raises `InvalidRequest` (not_acceptable) if it is Arrow, and that is not installed, or is not
    known in that version.
    """
    version = _arrow_version(accept)
    if version is None:
        return body_format
    try:
        from tms.arrow.polled import FORMATS  # noqa: PLC0415  an extra
    except ImportError:
        raise InvalidRequest("not_acceptable", accept=ARROW_TYPE, needs=_EXTRA) from None
    if version not in FORMATS:
        raise _not_acceptable(accept)
    return FORMATS[version]


@kept
def wants_decoded(accept: bytes) -> bool:
    """Whether an Accept asks for JSON of what messages say by their schemas."""
    for media_type, parameters in media_types_of(accept):
        if media_type == JSON.content_type and parameters.get("decode", "").lower() == "true":
            return not _is_unwanted(parameters)
    return False


def arrow_decoder_of(content_type: bytes) -> ArrowDecoder | None:
    """Return what decodes messages from Arrow, where a Content-Type names that.

    Raises `InvalidRequest` (unsupported_content_type) where it is not installed.
    """
    if not _is_arrow(content_type):
        return None
    try:
        from tms.arrow.published import decode_bodies  # noqa: PLC0415  an extra
    except ImportError:
        raise InvalidRequest(
            "unsupported_content_type", content_type=ARROW_TYPE, needs=_EXTRA
        ) from None
    return decode_bodies


@kept
def _is_arrow(content_type: bytes) -> bool:
    """Whether a Content-Type says a stream of Arrow's."""
    return _parse(content_type).name == ARROW_TYPE


@kept
def _arrow_version(accept: bytes) -> str | None:
    """Return the version of Arrow's streams that an Accept names; None if it names none."""
    for media_type, parameters in media_types_of(accept):
        if media_type == ARROW_TYPE and not _is_unwanted(parameters):
            return parameters.get("version", "1").lower()
    return None


def is_gzip(content_encoding: bytes) -> bool:
    """Whether a Content-Encoding says gzip, not none. Raises `InvalidRequest` on any other."""
    encoding = content_encoding.strip().lower()
    if encoding in (b"gzip", b"x-gzip"):
        return True
    if encoding in (b"", b"identity"):
        return False
    shown = shortened(content_encoding.decode("latin-1"), _HEADER_CHARS_SHOWN)
    raise InvalidRequest("unsupported_content_encoding", content_encoding=shown)


@kept
def takes_gzip(accept_encoding: bytes) -> bool:
    """Whether an Accept-Encoding lists gzip, and not with a quality of zero."""
    for item in accept_encoding.decode("latin-1").lower().split(","):
        if "gzip" in item and (coding := media_type_of(item)).name in ("gzip", "x-gzip"):
            return not _is_unwanted(coding.parameters)
    return False


def _is_unwanted(parameters: Mapping[str, str]) -> bool:
    """Whether an item of a field that lists what a client takes says that it does not."""
    return _ZERO.fullmatch(parameters.get("q", "1")) is not None
