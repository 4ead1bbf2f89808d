"""If a topic changes while a publish waits, the new properties apply to the publish."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from tests.messaging.conftest import NOW_MS, TOPIC, FaultyStore
from tests.messaging.polled import payloads, settle
from tests.waiting import in_time
from tms.core.errors import InvalidRequest, StoreUnavailable, TmsError, TopicIsCompact
from tms.core.limits import Limits
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.topic_schemas import TopicSchemas
from tms.messaging.service import Service
from tms.messaging.subscriptions import SubscriptionService

pytestmark = pytest.mark.anyio

POINTER = NOW_MS * 1_000_000
CHECKED = {"schema_check": "full"}
COMPACT = {"cleanup": "compact"}


class Checking:
    """A slow registry, which refuses one payload if a test says so."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.goes_on = asyncio.Event()
        self.refuses = b""

    async def check(
        self, _: TopicSchemas, payloads: Sequence[bytes], *, caller: Caller = ANYBODY
    ) -> None:
        assert caller is ANYBODY
        self.asked.set()
        await self.goes_on.wait()
        if self.refuses in payloads:
            raise InvalidRequest("invalid_store")


@pytest.fixture
def values() -> Checking:
    return Checking()


@pytest.fixture
async def checking(service: Service, values: Checking) -> Checking:
    await service.update_topic(TOPIC, CHECKED)
    return values


async def made_again(service: Service, properties: dict[str, object]) -> None:
    await service.delete_topic(TOPIC)
    await service.create_topic(TOPIC, properties)


async def given_others(service: Service, properties: dict[str, object]) -> None:
    await service.update_topic(TOPIC, properties)


WAYS: dict[str, Callable[[Service], Awaitable[Any]]] = {
    "publish": lambda service: service.publish(TOPIC, [b"x"]),
    "publish in a transaction": lambda service: service.publish(TOPIC, [b"x"], POINTER),
    "store": lambda service: service.store(TOPIC, [b"x"], POINTER),
}
CHANGES = {"made again": made_again, "given others": given_others}


@pytest.mark.parametrize("change", list(CHANGES))
@pytest.mark.parametrize("way", list(WAYS))
async def test_what_was_checked_before_a_change_is_checked_again(
    service: Service, checking: Checking, way: str, change: str
) -> None:
    asked = asyncio.ensure_future(WAYS[way](service))
    async with in_time("the check"):
        await checking.asked.wait()
    await CHANGES[change](service, dict(COMPACT))
    checking.goes_on.set()
    with pytest.raises(TmsError):
        await asked
    await service.publish(TOPIC, (), POINTER)
    assert await payloads(service) == []


async def test_a_schema_that_was_given_in_the_meantime_is_that_to_check_by(
    service: Service, checking: Checking
) -> None:
    asked = asyncio.ensure_future(service.publish(TOPIC, [b"x"]))
    async with in_time("the check"):
        await checking.asked.wait()
    await service.update_topic(TOPIC, {**CHECKED, "n": "2"})
    checking.refuses = b"x"
    checking.goes_on.set()
    with pytest.raises(InvalidRequest):
        await asked
    assert await payloads(service) == []


@pytest.mark.parametrize("way", list(WAYS))
async def test_what_waits_to_be_written_is_refused_once_the_topic_has_changed(
    service: Service, store: FaultyStore, way: str
) -> None:
    if way == "store":
        await service.store(TOPIC, [b"x"], POINTER)
    before = await payloads(service)
    store.passed.clear()
    first = asyncio.ensure_future(service.publish(TOPIC, [b"first"]))
    await settle()
    changed = asyncio.ensure_future(service.update_topic(TOPIC, dict(COMPACT)))
    await settle()
    # The topic's state changes while the publish is queued.
    state = service._engine.states.loaded(TOPIC)
    assert state is not None
    asked = asyncio.ensure_future(WAYS[way](service))
    await settle()
    topic = state.topic
    service._engine.states.replaced(topic.changed(topic.ttl_s, COMPACT, NOW_MS))
    store.passed.set()
    await asyncio.gather(first, changed)
    with pytest.raises(StoreUnavailable):
        await asked
    with pytest.raises((InvalidRequest, TopicIsCompact)):
        await WAYS[way](service)
    assert await payloads(service) == [*before, b"first"]


async def test_another_ttl_refuses_nothing(service: Service, checking: Checking) -> None:
    asked = asyncio.ensure_future(service.publish(TOPIC, [b"x"]))
    async with in_time("the check"):
        await checking.asked.wait()
    await service.update_topic(TOPIC, {**CHECKED, "ttl": 77})
    checking.goes_on.set()
    await asked
    assert await payloads(service) == [b"x"]


class TestTooManySubscriptions:
    @pytest.fixture
    def limits(self) -> Limits:
        return Limits(topic_subscriptions_max=2)

    async def test_the_bound_holds_for_those_that_are_made_at_once(self, service: Service) -> None:
        subscriptions = SubscriptionService(service._engine)
        made = [subscriptions.create_subscription(TOPIC, f"s{n}") for n in range(5)]
        outcomes = await asyncio.gather(*made, return_exceptions=True)
        assert sum(isinstance(each, TmsError) for each in outcomes) == 3
        assert len(await subscriptions.subscriptions(TOPIC)) == 2
