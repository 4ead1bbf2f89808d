"""The shards of requests: the registry's are in none, however many shards there are."""

import httpx
import pytest

from api.cluster.forwarding import Forwarder
from api.cluster.places import RequestPlaces
from api.http.metrics import RestMetrics
from api.registry.application import create_registry_app
from api.registry.forwarding import PREFIX
from tests.api.cluster.standing_by import LIMITS, Following, Known
from tests.api.rest import serving
from tests.registry.registries import opened
from tms.core.limits import Limits
from tms.core.values.shards import ShardBy, Sharding

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("by", ShardBy)
@pytest.mark.parametrize("shards", [1, 3])
async def test_each_server_answers_for_the_registry(shards: int, by: ShardBy) -> None:
    """Otherwise a write that is forwarded to the master would be forwarded again, to the leader."""
    places = RequestPlaces(Sharding(shards, by))
    async with opened() as registries:
        registry = registries.make().registry
        routes = create_registry_app(registry, Limits(), RestMetrics()).routes.routes
    operations = [
        (route.template, route.target.operation)
        for route in routes
        if route.target.operation is not None
    ]
    assert len(operations) > 20
    assert not [
        template
        for template, operation in operations
        if places.place_of(f"{PREFIX}{template}", operation)
    ]


async def test_a_server_that_leads_nothing_answers_for_the_registry() -> None:
    """It may be the master: then requests that other servers have forwarded are its own."""
    async with opened() as registries:
        registry = registries.make().registry
        below = create_registry_app(registry, Limits(), RestMetrics())
        following = Following(Forwarder(7), cluster=Known(), schemas=below)
        async with (
            serving(following.app, LIMITS) as (url, _),
            httpx.AsyncClient(base_url=f"{url}{PREFIX}", trust_env=False, verify=False) as http,
        ):
            forwarded = {"tms-forwarded-by": "8"}
            written = await http.put("/config/x", json={"normalize": True}, headers=forwarded)
            read = await http.get("/config/x")
        await following.close()
    assert [each.status_code for each in (written, read)] == [200, 200], (written.text, read.text)
    assert "tms-forwarded-by" not in {*written.headers, *read.headers}
