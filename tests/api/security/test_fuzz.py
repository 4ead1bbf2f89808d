"""Whatever a stranger sends, the server does nothing for it."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode

from api.app import OPERATIONS
from api.http.operation import Operation
from api.openapi.service import service_document
from tests.api.openapi import media
from tests.api.openapi.cases import cases_of
from tests.api.security.secured import OPEN, pair_of_servers
from tests.scale import scaled
from tests.waiting import WAIT_S_MAX
from tms.security.tokens import new_token

__all__ = ["media"]

pytestmark = pytest.mark.slow

EXAMPLES = scaled(6)
CLOSED = [operation for operation in OPERATIONS if operation.path not in OPEN]
CREDENTIALS = (
    None,
    "",
    "Bearer",
    "Bearer x",
    f"Bearer {new_token('root')[0]}",
    "Basic Og==",
    "Digest x",
)


@pytest.fixture(scope="module")
def urls() -> Iterator[list[str]]:
    """A leader and a follower, in a thread of their own."""
    found: list[str] = []
    loop, started, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with pair_of_servers() as pair:
            found.extend(server.url for server in pair.servers.values())
            started.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert started.wait(WAIT_S_MAX)
    yield found
    loop.call_soon_threadsafe(stop.set)
    thread.join(WAIT_S_MAX)
    loop.close()


@pytest.fixture(scope="module")
def document() -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_dict(service_document(OPERATIONS))


@pytest.mark.parametrize("operation", CLOSED, ids=lambda operation: operation.name)
def test_nothing_is_done_for_a_stranger(
    document: schemathesis.BaseSchema, urls: list[str], operation: Operation
) -> None:
    described = document[operation.path][operation.method]

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=cases_of(described, GenerationMode.POSITIVE),
        url=st.sampled_from(urls),
        said=st.sampled_from(CREDENTIALS),
    )
    def call(case: schemathesis.Case[Any], url: str, said: str | None) -> None:
        headers = {} if said is None else {"Authorization": said}
        response = case.call(base_url=url, session=session, headers=headers)
        assert response.status_code == 401, response.text

    with requests.Session() as session:
        call()
