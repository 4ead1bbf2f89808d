"""Servers ask each other by address, and accept an answer only from the server they asked."""

import pytest
from prometheus_client import CollectorRegistry

from api.cluster.forwarding import Forwarder
from api.http.context import Options
from tests.api.cluster.standing_by import LIMITS, Following
from tests.api.rest import serving
from tms.core.services.cluster import Instance
from tms.server.serving.parts import Peers

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("told", [4, None, 5])
async def test_a_server_is_reached_if_it_answers_itself(
    told: int | None, anyio_backend: str
) -> None:
    options = Options(registry=CollectorRegistry(), instance_id=told)
    app = Following(Forwarder(4), **options).app
    peers = Peers(None)
    async with serving(app, LIMITS, grace_s=0.5) as (url, _):
        other = Instance(id=4, address=url, version="1", since_ms=1)
        for _ in range(2):
            assert await peers.ask(other) is (told != 5)
