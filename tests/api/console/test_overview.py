"""The first page: figures, charts, and whatever is wrong."""

import pytest

from tests.api.console.site import TOPIC
from tests.api.console.watched import Watched, charts_of, watched
from tests.api.doors import ROOT, Doors
from tms.core.limits import Limits

pytestmark = pytest.mark.anyio
BYTES_MAX = 200_000


async def test_figures_of_a_server_that_has_just_started(server: Watched) -> None:
    page = await server.page()

    assert "No findings." in page
    assert "not in a cluster" in page
    assert "Transactions in progress</dt><dd>0</dd>" in page
    assert charts_of(page) == {}


async def test_figures_and_charts_of_an_hour(server: Watched) -> None:
    for _ in range(400):
        await server.watch.look()
        server.passes(10)
    await server.publish(*[b"12345"] * 120)
    await server.watch.look()

    page = await server.page()
    messages = charts_of(page)["Messages"]
    times, rates, _ = messages["data"]
    assert len(times) == 360
    assert rates[-1] == 12.0
    assert '<td class="number">12/s</td>' in page
    assert 'namespaces/ns/topics/t">ns:t</a>' in page
    assert len(page.encode()) < BYTES_MAX


async def test_findings_are_shown_with_what_to_do(server: Watched) -> None:
    started = await server.start(client="import")
    await server.publish(b"a", pointer=started)
    server.passes(61)

    page = await server.page()
    assert f"<strong>transaction {started}</strong>" in page
    assert "invalidate it" in page
    assert "No findings." not in page

    await server.services.transactions.invalidate(started)
    server.passes(5)
    assert "No findings." in await server.page()


async def test_what_is_wrong_is_for_operators(anyio_backend: object) -> None:
    doors = Doors()
    await doors.open()
    async with watched(doors) as server:
        await server.services.subscriptions.create_subscription(TOPIC, "hidden")
        await server.publish(b"a")
        server.passes(400)
        assert (await server.http.get("/console")).status_code == 303

        await server.sign_in(await doors.token("stranger"))
        page = await server.page()
        assert "hidden" not in page
        assert "Messages in" not in page

        await server.sign_in(doors.tokens[ROOT])
        page = await server.page()
        assert "ns:t hidden" in page
        assert "Messages in" in page


async def test_pages_are_small_with_much_to_show(anyio_backend: object) -> None:
    async with watched(limits=Limits(topic_subscriptions_max=1_000)) as server:
        for number in range(300):
            await server.services.subscriptions.create_subscription(TOPIC, f"s{number}" + "x" * 60)
            server_client = "c" * 60 + str(number)
            started = await server.start(client=server_client)
            await server.publish(b"a", pointer=started)
        server.passes(400)
        await server.services.refresh_lags()

        for path in ("", "/transactions", "/readers"):
            page = await server.page(path)
            assert len(page.encode()) < BYTES_MAX, path
        assert "There are 280 more of this kind." in await server.page()
