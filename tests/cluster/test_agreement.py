"""Servers with contradictory settings do not take part in one cluster."""

import logging

import pytest

from tests.cluster.world import clock_of_loop
from tms.cluster.agreement import COMPARED, REFUSED
from tms.cluster.instances import instances_of
from tms.cluster.presence import Presence
from tms.core.services.cluster import Instance
from tms.metadata.host import MetadataHost
from tms.server.serving.parts import agreed_settings
from tms.settings import Settings

pytestmark = pytest.mark.anyio

AGREED = agreed_settings(Settings(), has_registry=True)
OTHERWISE: dict[str, str | int] = {"transactions": "foreign", "registry_mode": "master"}


class Cluster:
    def __init__(self) -> None:
        self.host = MetadataHost(clock=clock_of_loop())
        self.present: list[Presence] = []
        self.gone: set[int] = set()
        """Dead servers whose entries still exist."""

    async def enter(
        self, number: int, agreed: dict[str, str | int], address: str | None = None
    ) -> None:
        address = address or f"http://{number}"
        instance = Instance(id=number, address=address, version="1", since_ms=1, agreed=agreed)

        async def ask(other: Instance) -> bool:
            return other.id not in self.gone

        presence = Presence(
            self.host.open_session(), instance, lease_s=1.0, look=lambda: None, ask=ask
        )
        await presence.enter()
        self.present.append(presence)

    async def ids(self) -> list[int]:
        return [each.id for each in await instances_of(self.host.open_session())]

    async def close(self) -> None:
        for each in self.present:
            await each.leave()
        await self.host.close()


def test_each_setting_that_is_compared_is_known() -> None:
    assert set(AGREED) == {*REFUSED, *COMPARED}
    without = agreed_settings(Settings(), has_registry=False)
    assert set(AGREED) - set(without) == {"registry_mode"}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_server_that_would_contradict_another_is_refused(name: str) -> None:
    cluster = Cluster()
    await cluster.enter(1, AGREED)
    with pytest.raises(ValueError, match=f"server 1 .*http://1.* {name}=.*: give all"):
        await cluster.enter(2, AGREED | {name: OTHERWISE.get(name, 7)})
    assert await cluster.ids() == [1]
    await cluster.enter(3, AGREED)
    await cluster.enter(4, {})
    assert await cluster.ids() == [1, 3, 4]
    await cluster.close()


@pytest.mark.parametrize("name", COMPARED)
async def test_a_limit_that_differs_is_logged(name: str, caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    await cluster.enter(1, AGREED)
    with caplog.at_level(logging.WARNING, "tms.cluster"):
        await cluster.enter(2, AGREED | {name: 77})
    [record] = caplog.records
    assert f"server 1 at http://1 has {name}={AGREED[name]}, but this one has {name}=77" in (
        record.getMessage()
    )
    await cluster.close()


async def test_one_that_stops_holds_no_other_up() -> None:
    cluster = Cluster()
    await cluster.enter(1, AGREED)
    await cluster.present[0].retire()
    await cluster.enter(2, AGREED | {"transactions": "foreign"})
    assert await cluster.ids() == [1, 2]
    await cluster.close()


async def test_an_address_is_given_to_one_server_and_again_once_that_is_gone() -> None:
    cluster = Cluster()
    await cluster.enter(1, AGREED)
    with pytest.raises(ValueError, match=r"server 1 .*http://1: give each"):
        await cluster.enter(2, AGREED, "http://1")
    assert await cluster.ids() == [1]
    cluster.gone.add(1)
    await cluster.enter(3, AGREED, "http://1")
    assert await cluster.ids() == [1, 3]
    await cluster.close()
