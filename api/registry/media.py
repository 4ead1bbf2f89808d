"""Which types the registry's bodies may have, and which one an answer gets by `Accept`."""

from collections.abc import Sequence

from api.http.exchange import Exchange
from api.http.header_values import MediaType, kept, media_type_of, media_types_of
from tms.core.credentials import shortened
from tms.core.errors import InvalidRequest
from tms.wire.registry_bodies import CONTENT_TYPE

_JSON = "application/json"
_GIVEN = (CONTENT_TYPE, "application/vnd.schemaregistry+json", _JSON)
"""What an answer can be, in the order of our choice."""
_TAKEN = frozenset((*_GIVEN, "application/octet-stream"))
_CHARS_SHOWN = 100


def check_type(exchange: Exchange) -> None:
    """Raise `InvalidRequest` (unsupported_content_type) if a body is of another type."""
    content_type = exchange.headers.get(b"content-type")
    if content_type is not None and not _is_taken(content_type):
        shown = shortened(content_type.decode("latin-1"), _CHARS_SHOWN)
        raise InvalidRequest("unsupported_content_type", content_type=shown)


def answer_type(exchange: Exchange) -> bytes:
    """Return the type of the answer. Raises `InvalidRequest` (not_acceptable)."""
    accept = exchange.headers.get(b"accept")
    return CONTENT_TYPE.encode() if accept is None else _chosen(accept)


@kept
def _is_taken(content_type: bytes) -> bool:
    return media_type_of(content_type.decode("latin-1")).name in _TAKEN


@kept
def _chosen(accept: bytes) -> bytes:
    """Return the type that an `Accept` likes best; of equals, the first of ours."""
    wanted = list(media_types_of(accept))
    liked = {given: _quality(given, wanted) for given in _GIVEN}
    best = max(_GIVEN, key=lambda given: liked[given])
    if not liked[best] and wanted:
        shown = shortened(accept.decode("latin-1"), _CHARS_SHOWN)
        raise InvalidRequest("not_acceptable", accept=shown)
    return best.encode()


def _quality(given: str, wanted: Sequence[MediaType]) -> float:
    """Return how much a type is liked: as the item says that names it most closely."""
    main = given.partition("/")[0]
    for name in (given, f"{main}/*", "*/*"):
        named = [item for item in wanted if item.name == name]
        if named:
            return max(_number(item.parameters.get("q", "1")) for item in named)
    return 0.0


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0
