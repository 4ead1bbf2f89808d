"""Writes at a server that is not the registry's master: the master carries them out and answers."""

import httpx
import pytest

from api.cluster.forwarding import Forwarder
from api.http.application import Application
from api.http.context import context_of
from api.http.metrics import RestMetrics
from api.registry.application import create_registry_app
from api.registry.forwarding import PREFIX, MasterForwarding
from tests.api.rest import serving
from tests.registry.elected_by_hand import Server
from tests.registry.registries import opened
from tms.core.limits import Limits
from tms.registry.log.mastership import Elected

pytestmark = pytest.mark.anyio

BODY = {"schema": '"string"'}
SEQUENCE = "tms-registry-sequence"


async def test_a_write_is_done_by_the_master_however_its_path_is_spelt() -> None:
    async with opened() as registries:
        master, follower = Server(registries, "a"), Server(registries, "b")
        forwarders = [Forwarder(1), Forwarder(2)]
        apps = []
        for server, forwarder in zip((master, follower), forwarders, strict=True):
            server.take_part()
            registry = server.called.registry
            forwarding = MasterForwarding(registry, server.mastership, forwarder)
            app = Application(context_of(Limits()), RestMetrics(), ())
            below = create_registry_app(registry, Limits(), RestMetrics(), forwarding)
            app.routes.mount_whole(PREFIX, below.routes)
            apps.append(app)
        async with (
            serving(apps[0], Limits()) as (url, _),
            serving(apps[1], Limits()) as (other_url, _),
            httpx.AsyncClient(base_url=url, trust_env=False, verify=False) as at_master,
            httpx.AsyncClient(base_url=other_url, trust_env=False, verify=False) as at_follower,
        ):
            await master.become()
            follower.hand.tell(Elected(f"{url}{PREFIX}"))
            for number, prefix in enumerate((PREFIX, "/v1/%72egistry", f"{PREFIX}/contexts/c")):
                path = f"{prefix}/subjects/s{number}/versions"
                answer = await at_follower.post(path, json=BODY)
                assert (answer.status_code, answer.json()["id"]) == (200, 1), answer.text
                assert answer.headers["tms-forwarded-by"] == "2"
                assert int(answer.headers[SEQUENCE]) <= follower.called.registry.state.last_sequence
                assert (await at_follower.get(path)).json() == [1], "it has read what was written"
            answer = await at_master.post(f"{PREFIX}/subjects/own/versions", json=BODY)
            assert answer.status_code == 200
            assert SEQUENCE not in answer.headers
            answer = await at_follower.post(f"{PREFIX}/none", json=BODY)
            assert (answer.status_code, answer.json()["error_code"]) == (404, 404)
        for server, forwarder in zip((master, follower), forwarders, strict=True):
            await server.mastership.close()
            await forwarder.close()
