"""Servers that ask each other at their addresses: an answer has to be of the one that is asked."""

import pytest
from prometheus_client import CollectorRegistry

from api.app import create_standby
from api.cluster.forwarding import Forwarder
from api.http.context import Options
from tests.api.rest import serving
from tms.core.cluster import Instance
from tms.core.limits import Limits
from tms.server.serving.parts import Peers

LIMITS = Limits()
pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("told", [4, None, 5])
async def test_a_server_is_reached_if_it_answers_itself(
    told: int | None, anyio_backend: str
) -> None:
    options = Options(registry=CollectorRegistry(), instance_id=told)
    app = create_standby(Forwarder(4), LIMITS, **options)
    peers = Peers(None)
    async with serving(app, LIMITS, grace_s=0.5) as (url, _):
        other = Instance(id=4, address=url, version="1", since_ms=1)
        for _ in range(2):
            assert await peers.ask(other) is (told != 5)
