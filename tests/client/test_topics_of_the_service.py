"""Topics of a part of the service: only that part changes them, and everybody may read them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress

import pytest

from tests.servers.server_process import ServerProcess
from tms.client.embedded import open_embedded
from tms.client.remote.remote_services import RemoteServices
from tms.core.errors import NotPermitted, TmsError, TopicExists
from tms.core.services.messaging import Messaging, RollbackRange
from tms.core.services.server_services import Services
from tms.core.services.transactions import StartRequest
from tms.core.values.caller import REGISTRY, Caller
from tms.core.values.reading import Reading
from tms.core.values.shards import ShardBy
from tms.core.values.topic import TopicId

pytestmark = pytest.mark.anyio

SCHEMAS = TopicId("system", "_schemas")
PART = Caller(part=REGISTRY)
OTHERS = (Caller(), Caller(principal="root"), Caller(part="other"))


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    """A server for this file alone: on the shared one, a registry may have created its topic."""
    with ServerProcess("memory:") as server:
        yield server
        assert server.stop() == 0


@pytest.fixture(scope="module")
def shards() -> Iterator[ServerProcess]:
    with ServerProcess("memory:", shard_by=ShardBy.NAMESPACE) as server:
        yield server
        assert server.stop() == 0


@pytest.fixture
async def services(url: str) -> AsyncIterator[Services]:
    services: Services
    if url.startswith("http:"):
        services = RemoteServices(url, timeout_s=30, retry_for_s=0, compress=False)
    else:
        services = await open_embedded(url)
    yield services
    await services.close()


Change = Callable[[Messaging, Caller, int], Awaitable[object]]

CHANGES: dict[str, Change] = {
    "create": lambda messaging, caller, _: messaging.create_topic(SCHEMAS, caller=caller),
    "update": lambda messaging, caller, _: messaging.update_topic(SCHEMAS, {}, caller=caller),
    "publish": lambda messaging, caller, _: messaging.publish(SCHEMAS, [b"x"], caller=caller),
    "store": lambda messaging, caller, pointer: messaging.store(
        SCHEMAS, [b"x"], pointer, caller=caller
    ),
    "rollback": lambda messaging, caller, pointer: messaging.rollback(
        SCHEMAS, RollbackRange(pointer, 1, 0, 1, 0), caller=caller
    ),
    "publish_all": lambda messaging, caller, _: messaging.publish_all(
        {SCHEMAS: [b"x"]}, caller=caller
    ),
    "delete": lambda messaging, caller, _: messaging.delete_topic(SCHEMAS, caller=caller),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_its_part_alone_changes_it(services: Services, name: str) -> None:
    change, messaging = CHANGES[name], services.messaging
    request = StartRequest(namespace=SCHEMAS.namespace)
    pointer = (await services.transactions.start(request)).transaction_id
    with suppress(TopicExists):  # this is the server of the earlier tests
        await messaging.create_topic(SCHEMAS, caller=PART)
    before = [block async for block in messaging.poll(SCHEMAS, Reading(bytes(20)))]

    for caller in OTHERS:
        with pytest.raises(NotPermitted) as refused:
            await change(messaging, caller, pointer)
        assert refused.value.detail["topic"] == "system:_schemas"
    after = [block async for block in messaging.poll(SCHEMAS, Reading(bytes(20)))]
    assert after == before

    try:
        await change(messaging, PART, pointer)
    except NotPermitted:
        pytest.fail("it is the part's own topic")
    except TmsError as error:
        assert name == "create", error


async def test_other_topics_of_the_namespace_are_ordinary(services: Services) -> None:
    ordinary = TopicId("system", "metadata")
    await services.messaging.create_topic(ordinary)
    assert len(await services.messaging.publish(ordinary, [b"x"])) == 1
    await services.messaging.delete_topic(ordinary)
