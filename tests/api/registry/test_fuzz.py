"""Fuzzes a registry from its own OpenAPI document.

Whatever is sent, the document describes the answer, and it is never an error of the server.
"""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.registry.application import operations_of
from tests.api.openapi.cases import cases_of
from tests.api.registry.live import served
from tests.registry.registries import record
from tests.scale import scaled
from tests.waiting import WAIT_S_MAX
from tms.wire.registry_bodies import CONTENT_TYPE

pytestmark = pytest.mark.slow

EXAMPLES = scaled(20)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
KNOWN = {"id": 1, "subject": "s", "version": "1", "context": ".c"}

TEXTS = st.one_of(
    st.just(record("a")),
    st.just(record("a", "b")),
    st.just('"string"'),
    st.text(max_size=20),
    st.recursive(
        st.sampled_from(["int", "R", "nosuch", 1, None]),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.builds(lambda each: {"type": "array", "items": each}, inner)
            | st.builds(
                lambda each: {
                    "type": "record",
                    "name": "R",
                    "fields": [{"name": "f", "type": each}],
                },
                inner,
            )
        ),
        max_leaves=5,
    ).map(lambda tree: str(tree).replace("'", '"')),
)
schemathesis.openapi.format("schema-text", TEXTS)


@pytest.fixture(scope="module")
def api() -> Iterator[schemathesis.BaseSchema]:
    """The document of a registry that runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    started = threading.Event()
    stop = asyncio.Event()
    urls: list[str] = []

    async def serve() -> None:
        async with served() as opened:
            await opened.register("s", record("a"))
            urls.append(str(opened.http.base_url))
            started.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert started.wait(WAIT_S_MAX)
    document = requests.get(f"{urls[0]}/openapi.json", timeout=WAIT_S_MAX).json()
    document["servers"] = [{"url": urls[0]}]
    text = document["components"]["schemas"]["SchemaRequest"]["properties"]["schema"]
    text.clear()
    text |= {"type": "string", "format": "schema-text"}
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=urls[0])
    yield schema
    loop.call_soon_threadsafe(stop.set)
    thread.join(WAIT_S_MAX)
    loop.close()


def rows() -> list[tuple[str, str]]:
    made: Any = type("Limits", (), {"schema_bytes_max": 1})
    registry: Any = type("Registry", (), {"limits": made})
    return [(each.path, each.method) for each in operations_of(registry)]


CALLS = [
    (path, method, mode)
    for path, method in rows()
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    if mode is GenerationMode.POSITIVE or method in ("POST", "PUT")
]


@pytest.mark.parametrize(("path", "method", "mode"), CALLS)
def test_whatever_is_sent_the_answer_is_as_documented(
    api: schemathesis.BaseSchema, path: str, method: str, mode: GenerationMode
) -> None:
    described = api[path][method]
    # A text is returned as it is, whatever type the answer declares, as Confluent's registry does.
    checks = CHECKS[:-1] if path.endswith("/schema") else CHECKS
    session = requests.Session()

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases_of(described, mode), is_known=st.booleans())
    def call(case: schemathesis.Case[Any], *, is_known: bool) -> None:
        if mode is GenerationMode.POSITIVE and is_known:
            names = case.path_parameters or ()
            case.path_parameters = {name: KNOWN.get(name, "x") for name in names}
        case.media_type = CONTENT_TYPE if case.media_type else None
        case.validate_response(case.call(session=session), checks=checks)

    with session:
        call()


def test_the_document_is_valid(api: schemathesis.BaseSchema) -> None:
    api.validate()
    assert len(list(api.get_all_operations())) == len(rows())
