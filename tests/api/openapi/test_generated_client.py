"""A client that is generated from the OpenAPI document works, and mostly without errors."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.app import OPERATIONS
from api.openapi.service import service_document
from tests.api.rest import Live, live

pytestmark = pytest.mark.anyio

PACKAGE = "generated_tms"
PLACE = {"namespace": "ns", "topic": "t"}


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Generate the client once."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(json.dumps(service_document(OPERATIONS)))
    (folder / "config.yml").write_text("post_hooks: []\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"),
            *("--path", folder / "openapi.json", "--config", folder / "config.yml"),
            *("--output-path", folder / PACKAGE),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    told = {line for line in done.stdout.splitlines() if line.startswith("Unsupported")}
    assert told <= {
        "Unsupported content type avro/binary",
        "Unsupported content type application/vnd.apache.arrow.stream",
    }
    sys.path.insert(0, str(folder))
    yield folder / PACKAGE
    sys.path.remove(str(folder))


def module(path: str) -> Any:
    return importlib.import_module(f"{PACKAGE}.{path}")


async def call(client: Any, path: str, **given: Any) -> Any:
    """Return the whole answer of an operation."""
    return await module(f"api.{path}").asyncio_detailed(client=client, **given)


def test_each_operation_has_a_function_and_errors_have_one_class(generated: Path) -> None:
    functions = [path for path in generated.glob("api/*/*.py") if path.name != "__init__.py"]
    models = [path.stem for path in generated.glob("models/*.py")]

    assert len(functions) == len(OPERATIONS)
    of_errors = sorted(name for name in models if "error" in name or "response_4" in name)
    assert of_errors == ["error", "error_error", "error_error_detail"]
    assert len(models) < 2.4 * len(OPERATIONS)


@pytest.fixture
async def server(anyio_backend: object) -> Any:
    async with live(own=True) as served:
        yield served


async def test_it_publishes_and_polls(generated: Path, server: Live) -> None:
    models = module("models")
    url = f"http://{server.host}:{server.port}"
    async with module("client").Client(base_url=url) as client:
        created = await call(client, "topics.create_topic", **PLACE)
        body = models.PublishBody(messages=["hello", "world"])
        # Without ids the answer has no body, which this generator's clients do not accept.
        published = await call(client, "messages.publish", **PLACE, body=body, ids=True)
        polled = await call(client, "messages.poll", **PLACE, body=models.ConsumeRequest())

        assert [answer.status_code for answer in (created, published, polled)] == [200] * 3
        assert published.parsed.ids == [message.id for message in polled.parsed]
        assert [message.payload for message in polled.parsed] == ["hello", "world"]
        after = models.ConsumeRequest(start_from=polled.parsed[0].id, inclusive=False)
        rest = await call(client, "messages.poll", **PLACE, body=after)
        assert [message.payload for message in rest.parsed] == ["world"]

        missing = await call(
            client, "messages.poll", namespace="ns", topic="none", body=models.ConsumeRequest()
        )
        assert (missing.status_code, missing.parsed.error.code) == (404, "topic_not_found")


async def test_it_publishes_in_a_transaction(generated: Path, server: Live) -> None:
    models = module("models")
    url = f"http://{server.host}:{server.port}"
    async with module("client").Client(base_url=url) as client:
        await call(client, "topics.create_topic", **PLACE)
        started = await call(
            client, "transactions.start_transaction", body=models.StartRequest(), codec=False
        )
        transaction = started.parsed
        assert not transaction.transaction
        stored = await call(
            client,
            "messages.store",
            **PLACE,
            body=models.StoreBody(
                transaction_write_pointer=transaction.write_pointer, messages=["stored"]
            ),
        )
        assert (stored.status_code, stored.content) == (200, b"")
        for texts in ([], ["undone"]):
            published = await call(
                client,
                "messages.publish",
                **PLACE,
                body=models.PublishBody(
                    transaction_write_pointer=transaction.write_pointer, messages=texts
                ),
            )
            assert published.status_code == 200
        written = published.parsed
        undone = await call(client, "messages.rollback", **PLACE, body=written)
        committed = await call(
            client,
            "transactions.commit_transaction",
            transaction_id=transaction.transaction_id,
            body=models.CommitRequest(),
        )
        assert (undone.status_code, committed.status_code) == (200, 200)

        polled = await call(
            client,
            "messages.poll",
            **PLACE,
            body=models.ConsumeRequest(),
            isolation=models.PollIsolation.COMMITTED,
        )
        assert [message.payload for message in polled.parsed] == ["stored"]
