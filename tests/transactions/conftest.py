"""Fixtures of the tests of transactions."""

from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry

from tests.manual_clock import ManualClock
from tests.transactions.living import Living
from tests.transactions.reading import NOW_MS, A, B
from tms.server.node import OpenServices, open_services


@pytest.fixture
def living() -> Living:
    return Living()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
async def services(clock: ManualClock, registry: CollectorRegistry) -> AsyncIterator[OpenServices]:
    services = await open_services("memory:", clock=clock, registry=registry)
    for topic_id in (A, B):
        await services.messaging.create_topic(topic_id)
    yield services
    await services.close()
