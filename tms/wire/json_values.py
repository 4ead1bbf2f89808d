"""How values of REST's bodies stand in JSON, and what is refused.

Bytes (messages, payloads, changes) are a string if they are UTF-8 text, otherwise
`{"base64": "…"}`. A transaction is always base64, a message id 40 lower-case hexadecimal digits.
Avro's tagged unions (`{"long": 5}`) are taken in requests whose schema is CDAP's.
"""

import base64
import binascii
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Annotated, Any, TypeVar, cast

import msgspec

from tms.core.errors import InternalError, InvalidRequest
from tms.core.limits import INT64_MAX
from tms.wire.json_names import check_names

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)
Int64 = Annotated[int, msgspec.Meta(ge=-INT64_MAX - 1, le=INT64_MAX)]
JsonBytes = str | dict[str, str]

encode = msgspec.json.Encoder().encode


decoder_of: Callable[..., msgspec.json.Decoder[Any]] = cache(msgspec.json.Decoder)
"""Returns the decoder of a type, made once; if it is not `strict`, it takes text as numbers."""


def decode(kind: type[T], body: bytes, *, code: str = "invalid_body", check: bool = True) -> T:
    """Return the value of a type that a body has. Raises `InvalidRequest` (`code`).

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
    """Return the value of a type that a server's answer has. Raises `InternalError`."""
    try:
        value: T = decoder_of(kind, strict=strict).decode(answer)
    except msgspec.MsgspecError as error:
        raise InternalError(reason=str(error)) from None
    return value


def body_of(kind: type[S], value: object, **others: Any) -> S:
    """Return the struct that has the fields of a `value`, and `others` instead of some."""
    names = kind.__struct_fields__
    return kind(**{n: others[n] if n in others else getattr(value, n) for n in names})


def value_of(kind: type[T], body: msgspec.Struct, **others: Any) -> T:
    """Return the dataclass that has the fields of a `body`, and `others` instead of some."""
    names = [field.name for field in fields(cast("Any", kind))]
    return kind(**{n: others[n] if n in others else getattr(body, n) for n in names})


def untagged(value: Any, *tags: str) -> Any:
    """Return what is inside Avro's tagged form of a union, or `value` where it is not one."""
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
    """Return the bytes that a JSON value stands for. Raises `InvalidRequest` (invalid_body)."""
    if isinstance(value, dict):
        if list(value) == ["bytes"]:
            return bytes_of(value["bytes"])
        return from_base64(untagged(value, "base64"))
    return value.encode("utf-8", "surrogatepass")


def json_of(raw: bytes) -> JsonBytes:
    """Return the JSON value that stands for bytes."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}
