"""Fuzzes a live server from its own OpenAPI document.

The property: whatever is sent, the document describes the answer, in status, headers and body, and
it is never an error of the server. The server manages transactions; half of the requests are about
an existing topic, subscription and transaction.
"""

import asyncio
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    positive_data_acceptance,
    response_schema_conformance,
)

from api.app import OPERATIONS
from api.http.operation import Operation
from tests.api.openapi import media
from tests.api.openapi.cases import cases_of
from tests.api.rest import AVRO_TYPE, TOPIC, live, zipped
from tests.scale import scaled
from tests.waiting import WAIT_S_MAX
from tms.core.limits import Limits
from tms.wire.media_types import ARROW_TYPE

__all__ = ["media"]

pytestmark = pytest.mark.slow

EXAMPLES = scaled(30)
TOO_LARGE = 413

BEYOND_SCHEMAS = (
    "empty_publish",
    "ids or member",
    "invalid_delivery_time",
    "invalid_filter",
    "invalid_namespace_settings",
    "invalid_owner",
    "invalid_query",
    "invalid_range",
    "invalid_rollback_range",
    "invalid_transaction",
    "invalid_wish",
    "message_over_namespace_limit",
    "payload_without_schema",
    "publish_rate_exceeded",
    "request_over_namespace_limit",
    "schema_unusable",
    "start_time_in_seconds",
    "ttl_over_namespace_limit",
    "value_unfit",
)
"""Refusals of what a JSON schema cannot tell from what is taken: codes, or parts of a detail."""


class Compressing(requests.Session):
    """Sends a body in the encoding that its header says."""

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        if request.headers.get("Content-Encoding") in ("gzip", "x-gzip"):
            body = request.body or b""
            assert isinstance(body, str | bytes)
            body = zipped(body.encode() if isinstance(body, str) else body)
            request.body = body
            request.headers["Content-Length"] = str(len(body))
        return super().send(request, **options)


def with_whole_numbers(body: Any) -> Any:
    """Return `body` with 5 for 5.0, which is an integer to JSON schemas, but not to us."""
    if isinstance(body, dict):
        return {name: with_whole_numbers(value) for name, value in body.items()}
    if isinstance(body, list):
        return [with_whole_numbers(value) for value in body]
    return int(body) if isinstance(body, float) and body.is_integer() else body


@pytest.fixture(scope="module")
def api() -> Iterator[schemathesis.BaseSchema]:
    """The document of a server that runs in a thread of its own."""
    url = ""
    loop = asyncio.new_event_loop()
    started = threading.Event()
    stop = asyncio.Event()

    async def serve() -> None:
        nonlocal url
        # A wait is shorter than the fuzzer's patience.
        async with live(Limits(poll_wait_s_max=0.01), own=True) as rest:
            url = f"http://{rest.host}:{rest.port}"
            started.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert started.wait(WAIT_S_MAX)
    yield schemathesis.openapi.from_url(f"{url}/openapi.json")
    loop.call_soon_threadsafe(stop.set)
    thread.join(WAIT_S_MAX)
    loop.close()


KNOWN = {
    "namespace": "ns",
    "topic": "t",
    "subscription": "s",
    "id": "a" * 12,
    "scheduled_id": "0" * 32,
    "backup": "b",
}


def known_of(names: Iterable[str], url: str, session: requests.Session) -> dict[str, Any]:
    """Return path parameters that name existing things, which are created if necessary."""
    topic = f"{url}{TOPIC}"
    session.put(topic)
    session.put(f"{topic}/subscriptions/s")
    started = session.post(f"{url}/v1/transactions").json()
    known = {**KNOWN, "transaction_id": started["transaction_id"]}
    return {name: known[name] for name in names}


POSITIVE, NEGATIVE = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
CALLS = [
    pytest.param(operation, mode, id=f"{operation.name}-{mode.value}")
    for operation in OPERATIONS
    for mode in (POSITIVE, NEGATIVE)
    if mode is POSITIVE or "{" in operation.path
]


@pytest.mark.parametrize(("operation", "mode"), CALLS)
def test_whatever_is_sent_the_answer_is_as_documented(
    api: schemathesis.BaseSchema, operation: Operation, mode: GenerationMode
) -> None:
    described = api[operation.path][operation.method]
    session = Compressing()

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases_of(described, mode), is_known=st.booleans())
    def call(case: schemathesis.Case[Any], *, is_known: bool) -> None:
        if mode is POSITIVE and isinstance(case.body, dict):
            case.body = with_whole_numbers(case.body)
        if mode is POSITIVE and is_known:
            names = case.path_parameters or ()
            case.path_parameters = known_of(names, api.get_base_url().rstrip("/"), session)
        response = case.call(session=session)
        excluded: list[schemathesis.CheckFunction] = []
        codes = (*BEYOND_SCHEMAS, *(("invalid_body",) if operation.name == "publishRaw" else ()))
        if case.media_type in (AVRO_TYPE, ARROW_TYPE) or any(
            code.encode() in response.content for code in codes
        ):
            excluded.append(positive_data_acceptance)
        if operation.name == "publish" and not response.content:
            excluded += [content_type_conformance, response_schema_conformance]  # it has no body
        if response.status_code == TOO_LARGE:
            excluded.append(negative_data_rejection)  # it does not count that as a refusal
        case.validate_response(response, excluded_checks=excluded)

    with session:
        call()
