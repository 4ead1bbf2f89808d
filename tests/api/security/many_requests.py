"""Requests with many of something, made from a table of operations: of each list, of each map and
of the names of each object in a body, of the fields of a form, of the parameters of a query, of the
digits of a parameter, and of the parts or the digits of a header.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice, product
from typing import Any

from api.app import OPERATIONS
from api.http.operation import Json, Operation
from api.openapi.service import service_document
from tests.api.rest import JSON_TYPE
from tests.api.security.hostile_requests import HEADERS, NAME_IN_PATH, NAMES, HostileRequest, Places
from tests.api.security.targets import QUERIES

_DEPTH_MAX = 5
_HEAD_ITEMS_MAX = 8_000
"""The number of items that a head has room for."""
_HEADERS_EACH = 6
_IN_HEADERS = ("a,b;", "7777", '="\\/')
_PAGE_PARAMETERS = ("after", "at", "from", "id", "key", "open", "shard", "version")
"""Parameters that console pages read: their operations accept any other parameter."""
_WAITS = ("wait", "timeout")
"""Parameters for which a large number makes the server wait."""
FORM_TYPE = "application/x-www-form-urlencoded"
_SCHEMAS = service_document(OPERATIONS)["components"]["schemas"]


@dataclass(frozen=True, slots=True)
class Many:
    """A request that can be made with any number of some item."""

    name: str
    of: Callable[[int], HostileRequest]


def many_requests(operations: Iterable[Operation], schemas: Json = _SCHEMAS) -> Iterator[Many]:
    """Yield the requests of all operations.

    `schemas` are those of the document of the operations, by default the service's. Each operation
    has some of the headers, the next one others.
    """
    headers = cycle(product(HEADERS, _IN_HEADERS))
    for operation in operations:
        names = {name: NAMES.get(name, "x") for name in NAME_IN_PATH.findall(operation.path)}
        path = operation.path.format(**names)
        required = [each["name"] for each in operation.query if each.get("required")]
        query = "&".join(f"{name}={'0' * 40}" for name in required)
        query = query or QUERIES.get(operation.name, "")
        body = _Bodies(operation, schemas)
        whole = f"{path}?{query}"
        yield body.many("parameters", partial(_longer, whole, "&a=1"))
        known = [each["name"] for each in operation.query]
        for name in (*known, *(_PAGE_PARAMETERS if operation.takes_any_query else ())):
            digits = "0000" if name in _WAITS else "7777"
            yield body.many(f"digits of {name}", partial(_longer, f"{whole}&{name}=", digits))
        for header, unit in [("cookie", "a=1;"), *islice(headers, _HEADERS_EACH)]:
            what = f"{unit} in {header}"
            yield body.many(what, partial(_longer, whole, ""), header=(header, unit))
        if operation.request == {}:
            yield body.many("fields", partial(_longer, path, ""), value=lambda n: "a=1&" * n)
        for where, value in body.places():
            yield body.many(where, partial(_longer, whole, ""), value=value)


def _longer(start: str, unit: str, count: int) -> str:
    return start + unit * _in_head(count)


def _in_head(count: int) -> int:
    return min(count, _HEAD_ITEMS_MAX)


class _Bodies:
    """The bodies of one operation."""

    def __init__(self, operation: Operation, schemas: Json) -> None:
        self._operation = operation
        self._samples = Places(schemas)
        otherwise: Json = {JSON_TYPE if operation.request is None else FORM_TYPE: {}}
        self._type, described = next(iter((operation.request or otherwise).items()))
        self._schema = described.get("schema", {})

    def many(
        self,
        what: str,
        target: Callable[[int], str],
        *,
        value: Callable[[int], str] | None = None,
        header: tuple[str, str] | None = None,
    ) -> Many:
        def of(count: int) -> HostileRequest:
            sent = value(count) if value else ""
            if self._operation.request and value is None:
                sent = json.dumps(self._samples.sample(self._schema))
            body = sent.encode()
            headers = {"content-type": self._type}
            if header is not None:
                headers[header[0]] = header[1] * _in_head(count)
            name = f"{self._operation.name}: {count} {what}"
            return HostileRequest(name, self._operation.method, target(count), headers, body)

        return Many(f"{self._operation.name}: {what}", of)

    def places(self) -> Iterator[tuple[str, Callable[[int], str]]]:
        """Yield each place of a body that may hold many items, with the text of such a body."""
        if self._operation.request:
            yield from self._of(self._schema, "body", lambda text: text, 0)

    def _of(
        self, schema: Json, at: str, around: Callable[[str], str], depth: int
    ) -> Iterator[tuple[str, Callable[[int], str]]]:
        samples = self._samples
        schema = samples._resolved(schema)
        if depth == _DEPTH_MAX:
            return
        for choice in samples._choices(schema):
            yield from self._of(choice, at, around, depth + 1)
        if "items" in schema:
            item = samples.sample(schema["items"])
            yield f"items of {at}", lambda n: around(f"[{', '.join(_distinct(item, n))}]")
            inner = schema["items"]
            yield from self._of(inner, f"{at}[]", lambda text: around(f"[{text}]"), depth + 1)
        if schema.get("type") == "object":
            more = schema.get("additionalProperties")
            value = json.dumps(samples.sample(more)) if isinstance(more, dict) else "1"
            yield f"names of {at}", lambda n: around(_object(n, value, again=False))
            yield f"names of {at}, the last twice", lambda n: around(_object(n, value, again=True))
            rest = samples.sample(schema)
            for name, property_schema in schema.get("properties", {}).items():

                def within(text: str, name: str = name) -> str:
                    others = {key: each for key, each in rest.items() if key != name}
                    start = json.dumps(others)[:-1] + (", " if others else "")
                    return around(f"{start}{json.dumps(name)}: {text}}}")

                yield from self._of(property_schema, f"{at}.{name}", within, depth + 1)


def _object(count: int, value: str, *, again: bool) -> str:
    names = [f'"n{number}": {value}' for number in range(count)]
    return "{" + ", ".join([*names, *names[-1:]] if again else names) + "}"


def _distinct(item: Any, count: int) -> Iterator[str]:
    for number in range(count):
        yield json.dumps(f"t{number}" if isinstance(item, str) else item)
