"""Requests with one field that is 64 KB of a hostile text, made from the table of operations.

Fields are the parts of the path, the path and its query as a whole, each parameter of the query and
one that is not known, each header that servers look at, and each field of a body.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from typing import Any
from urllib.parse import quote

from api.app import OPERATIONS
from api.http.operation import Json, Operation
from api.openapi.service import service_document
from tests.api.rest import JSON_TYPE, POINTER
from tests.api.security.hostile import KINDS, hostile

SIZE = 64 * 1024
HEAD_SIZE = 60 * 1024
"""The bytes of a field in the head, which may have 64 KB in all."""
NAMES = {
    "namespace": "ns",
    "topic": "t",
    "subscription": "s",
    "transaction_id": POINTER,
    "scheduled_id": "0" * 32,
    "backup": "b",
    "id": "1",
    "subject": "s",
    "version": "1",
    "context": ".c",
}
HEADERS = (
    "accept",
    "accept-encoding",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "if-none-match",
    "last-event-id",
    "origin",
    "referer",
    "sec-fetch-mode",
    "sec-fetch-site",
    "tms-forwarded-by",
    "tms-part",
    "tms-principal",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "x-nobody-knows",
)
_SCHEMAS = service_document(OPERATIONS)["components"]["schemas"]
NAME_IN_PATH = re.compile(r"{(\w+)}")
_DEPTH_MAX = 5
_HEADERS_EACH = 6
_VISIBLE = "".join(map(chr, range(0x21, 0x7F)))


Place = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class HostileRequest:
    """One request, its hostile field, and the kind of hostile text."""

    name: str
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def whole(self) -> bytes:
        """The request."""
        fields = {"host": "localhost", **self.headers}
        if self.body or self.method in ("POST", "PUT"):
            fields.setdefault("content-length", str(len(self.body)))
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"{self.method} {self.target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + self.body


def requests_of(
    operations: Iterable[Operation], schemas: Json | None = None
) -> Iterator[tuple[Operation, HostileRequest]]:
    """Yield the requests of all operations, each with the next kind of text.

    `schemas` are those of the document of the operations, by default the service's.

    Each operation has some of the headers, the next one others.
    """
    kinds, headers = cycle(KINDS), cycle(HEADERS)
    for operation in operations:
        of_one = _Requests(operation, Places(schemas or _SCHEMAS), kinds)
        for request in of_one.all(islice(headers, _HEADERS_EACH)):
            yield operation, request


class _Requests:
    """Makes the requests of one operation. All other fields are valid, or nearly."""

    def __init__(self, operation: Operation, places: "Places", kinds: Iterator[str]) -> None:
        self._operation = operation
        self._places = places
        self._kinds = kinds
        self._last = ""
        self._names = {name: NAMES.get(name, "x") for name in NAME_IN_PATH.findall(operation.path)}
        self._path = operation.path.format(**self._names)
        required = [each["name"] for each in operation.query if each.get("required")]
        self._known = "&".join(f"{name}={'0' * 40}" for name in required)
        self._type, described = next(iter((operation.request or {JSON_TYPE: {}}).items()))
        self._schema = described.get("schema", {})
        self._right = _encode(places.sample(self._schema)) if operation.request else b""

    def all(self, headers: Iterable[str]) -> Iterator[HostileRequest]:
        """Yield the requests, among them one for each of `headers`."""
        yield from self._of_target()
        for name in headers:
            yield self._of(f"header {name}", headers={name: _in_header(self._kind())})
        for scheme in ("Bearer", "Basic"):
            value = f"{scheme} {_in_header(self._kind())}"
            yield self._of(f"header of {scheme}", headers={"authorization": value})
        if self._operation.request:
            yield from self._of_body(self._operation.request)

    def _of_target(self) -> Iterator[HostileRequest]:
        for name in self._names:
            names = {**self._names, name: _encoded(self._kind())}
            yield self._of(f"path part {name}", self._operation.path.format(**names))
        yield self._of("end of the path", f"{self._path}/{_visible(self._kind())}")
        yield self._of("query", f"{self._path}?{_visible(self._kind())}")
        for name in (*(each["name"] for each in self._operation.query), "nobody_knows"):
            query = f"{self._known}&{name}={_encoded(self._kind())}"
            yield self._of(f"query {name}", f"{self._path}?{query}")

    def _of_body(self, media_types: Iterable[str]) -> Iterator[HostileRequest]:
        for media_type in media_types:
            body = hostile(self._kind(), SIZE).encode()
            yield self._of(f"body {media_type}", headers={"content-type": media_type}, body=body)
        gzip = {"content-encoding": "gzip"}
        yield self._of("gzip", headers=gzip, body=hostile(self._kind(), SIZE).encode())
        for where, place in self._places.of(self._schema):
            body = _encode(place(hostile(self._kind(), SIZE)))
            yield self._of(f"field {where}", body=body)

    def _kind(self) -> str:
        self._last = next(self._kinds)
        return self._last

    def _of(
        self,
        where: str,
        target: str | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> HostileRequest:
        return HostileRequest(
            f"{self._operation.name}: {where} of {self._last}",
            self._operation.method,
            target or f"{self._path}?{self._known}",
            {"content-type": self._type, **(headers or {})},
            self._right if body is None else body,
        )


def _encoded(kind: str) -> str:
    """Return a text percent-encoded, as a part of a path or query."""
    text = hostile(kind, HEAD_SIZE)
    return quote(text, safe="")[: HEAD_SIZE - 3].rpartition("%")[0]


def _visible(kind: str) -> str:
    """Return a text as a path may contain it, with as little percent-encoding as possible."""
    safe = _VISIBLE.translate({ord(mark): None for mark in "#?%"})
    return quote(hostile(kind, HEAD_SIZE), safe=safe)[:HEAD_SIZE]


def _in_header(kind: str) -> str:
    return quote(hostile(kind, HEAD_SIZE), safe=_VISIBLE + " ")[:HEAD_SIZE]


def _encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


class Places:
    """Finds the places for texts in values of schemas that refer to each other."""

    def __init__(self, schemas: Json) -> None:
        self._schemas = schemas

    def sample(self, schema: Json) -> Any:
        """Return a small value that roughly fits a schema."""
        schema = self._resolved(schema)
        told = [*schema.get("examples", ()), *schema.get("enum", ())]
        if told:
            return told[0]
        choices = self._choices(schema)
        if choices:
            return self.sample(choices[0])
        properties = schema.get("properties", {})
        required = {n: self.sample(properties.get(n, {})) for n in schema.get("required", ())}
        number = schema.get("minimum", 1)
        by_type = {"object": required, "array": [], "integer": number, "number": number}
        kind = schema.get("type", "")
        return by_type.get(kind[0] if isinstance(kind, list) else kind, "t")

    def of(self, schema: Json, at: str = "", depth: int = 0) -> Iterator[tuple[str, Place]]:
        """Yield each place of a value that may have a text, with a function that puts one there."""
        schema = self._resolved(schema)
        yield at or "the whole", lambda text: text
        if depth == _DEPTH_MAX:
            return
        for choice in self._choices(schema):
            yield from self.of(choice, at, depth + 1)
        if "items" in schema:
            for where, place in self.of(schema["items"], f"{at}[]", depth + 1):
                yield where, partial(_in_list, place)
        if schema.get("type") == "object":
            yield from self._of_object(schema, at, depth)

    def _of_object(self, schema: Json, at: str, depth: int) -> Iterator[tuple[str, Place]]:
        rest = self.sample(schema)
        inner = dict(schema.get("properties", {}))
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            inner["any"] = more
        for name, each in inner.items():
            for where, place in self.of(each, f"{at}.{name}", depth + 1):
                yield where, partial(_in_object, place, rest, name)
        yield f"{at}: a name", lambda text: {**rest, text: "x"}

    def _resolved(self, schema: Json) -> Json:
        while "$ref" in schema:
            schema = self._schemas[schema["$ref"].rpartition("/")[2]]
        return schema

    def _choices(self, schema: Json) -> list[Json]:
        return [self._resolved(e) for e in (*schema.get("oneOf", ()), *schema.get("anyOf", ()))]


def _in_list(place: Place, text: str) -> list[Any]:
    return [place(text)]


def _in_object(place: Place, rest: Json, name: str, text: str) -> Json:
    return {**rest, name: place(text)}
