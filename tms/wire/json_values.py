"""How REST's bodies represent values in JSON, and what they refuse.

Bytes (messages, payloads, changes) are a string if they are UTF-8 text, otherwise `{"base64":
"…"}`. A transaction is always base64, a message id 40 lower-case hexadecimal digits. Avro's tagged
unions (`{"long": 5}`) are accepted in requests with CDAP's schemas.

No object may have a name twice, because readers disagree about which value counts. msgspec silently
keeps the last one, so a body is parsed again for its names only.
"""

import base64
import binascii
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Annotated, Any, TypeVar, cast

import msgspec

from tms.core.errors import InternalError, InvalidRequest
from tms.core.limits import INT64_MAX

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)
Int64 = Annotated[int, msgspec.Meta(ge=-INT64_MAX - 1, le=INT64_MAX)]
JsonBytes = str | dict[str, str]
_NAME_CHARS_SHOWN = 100

encode = msgspec.json.Encoder().encode


class _Twice(Exception):
    """Raised with the name that an object has twice."""


def _check_object(members: list[tuple[str, None]]) -> None:
    if len(members) > 1 and len(dict(members)) < len(members):
        counts = Counter(name for name, _ in members)
        raise _Twice(next(name for name, count in counts.items() if count > 1))


def _nothing(_: str) -> None:
    """Skip a number, which may be long."""


_names = json.JSONDecoder(
    object_pairs_hook=_check_object,
    parse_int=_nothing,
    parse_float=_nothing,
    parse_constant=_nothing,
    strict=False,
)


def check_names(text: bytes) -> None:
    """Raise `msgspec.DecodeError` if an object has a name twice.

    A text that is not JSON is ignored here: the decoder refuses it. Raises `RecursionError` if
    objects are nested deeper than can be read.
    """
    if text.count(b":") <= 1:
        return
    try:
        _names.decode(text.decode(errors="surrogatepass"))
    except _Twice as twice:
        name = str(twice)[:_NAME_CHARS_SHOWN]
        raise msgspec.DecodeError(f"Object has the name {name!r} twice") from None
    except ValueError:
        return


def strictly_decoded(decoder: Any, body: bytes) -> Any:
    """Return the decoded value of a body in which no object has a name twice.

    Raises as the decoder, and as `check_names`.
    """
    value = decoder.decode(body)
    check_names(body)
    return value


decoder_of: Callable[..., msgspec.json.Decoder[Any]] = cache(msgspec.json.Decoder)
"""Returns the cached decoder of a type; if not `strict`, it accepts text for numbers."""


def decode(kind: type[T], body: bytes, *, code: str = "invalid_body", check: bool = True) -> T:
    """Return the value of a type in a body. Raises `InvalidRequest` (`code`).

    Without the `check` an object may have a name twice, and the last one counts.
    """
    try:
        value: T = decoder_of(kind).decode(body)
        if check:
            check_names(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(code, format="json", reason=str(error)) from None
    return value


def check_body(body: bytes) -> None:
    """Raise `InvalidRequest` (invalid_body) if an object in the body has a name twice."""
    try:
        check_names(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest("invalid_body", format="json", reason=str(error)) from None


def decode_answer(kind: type[T], answer: bytes, *, strict: bool = True) -> T:
    """Return the value of a type in a server's answer. Raises `InternalError`."""
    try:
        value: T = decoder_of(kind, strict=strict).decode(answer)
    except msgspec.MsgspecError as error:
        raise InternalError(reason=str(error)) from None
    return value


def body_of(kind: type[S], value: object, **others: Any) -> S:
    """Return the struct with the fields of `value`, some replaced by `others`."""
    names = kind.__struct_fields__
    return kind(**{n: others[n] if n in others else getattr(value, n) for n in names})


def value_of(kind: type[T], body: msgspec.Struct, **others: Any) -> T:
    """Return the dataclass with the fields of `body`, some replaced by `others`."""
    names = [field.name for field in fields(cast("Any", kind))]
    return kind(**{n: others[n] if n in others else getattr(body, n) for n in names})


def untagged(value: Any, *tags: str) -> Any:
    """Return the value in Avro's tagged form of a union; `value` itself if it is not tagged."""
    if not isinstance(value, dict):
        return value
    if len(value) != 1 or next(iter(value)) not in tags:
        raise InvalidRequest("invalid_body", format="json", expected=" or ".join(tags))
    return next(iter(value.values()))


def int64(value: Any, name: str) -> int:
    """Return the number of a field that may be tagged. Raises `InvalidRequest` (invalid_body)."""
    if isinstance(value, str) or not -INT64_MAX <= value <= INT64_MAX:
        raise InvalidRequest("invalid_body", format="json", field=name, expected="64-bit number")
    return int(value)


def from_base64(text: str) -> bytes:
    """Return the bytes of a base64 string. Raises `InvalidRequest` (invalid_body)."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest("invalid_body", format="json", reason=str(error)) from None


def bytes_of(value: JsonBytes) -> bytes:
    """Return the bytes of a JSON value. Raises `InvalidRequest` (invalid_body)."""
    if isinstance(value, dict):
        if list(value) == ["bytes"]:
            return bytes_of(value["bytes"])
        return from_base64(untagged(value, "base64"))
    return value.encode("utf-8", "surrogatepass")


def json_of(raw: bytes) -> JsonBytes:
    """Return the JSON value of bytes."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}
