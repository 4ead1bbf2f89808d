"""The page of a topic's scheduled messages: what it shows, to whom, and its form."""

from collections.abc import Sequence

import pytest

from tests.api.console.site import TOPIC
from tests.api.console.watched import Watched, watched
from tests.api.doors import Doors
from tms.core.values.schedules import DeliveryTime
from tms.security.resources import Action

pytestmark = pytest.mark.anyio
PAGE = "/namespaces/ns/topics/t"
SCHEDULED = f"{PAGE}/scheduled"
HOSTILE = b"<img src=x onerror=alert(1)>"


async def schedule(server: Watched, *payloads: bytes) -> Sequence[str]:
    schedules = server.services.schedules
    return (await schedules.schedule(TOPIC, payloads, DeliveryTime(after_s=3600))).ids


async def left(server: Watched) -> list[str]:
    return [each.id for each in await server.services.schedules.scheduled(TOPIC)]


async def test_scheduled_messages_are_listed_and_cancelled(server: Watched) -> None:
    assert "There are none." in await server.page(SCHEDULED)
    first, second = await schedule(server, b"first", HOSTILE)
    assert SCHEDULED in await server.page(PAGE)
    page = await server.page(SCHEDULED)
    assert page.index(first) < page.index(second)
    assert "&lt;img" in page
    assert "<img" not in page
    assert (await server.post(SCHEDULED, f"{SCHEDULED}/cancel", id=first)).status_code == 303
    assert await left(server) == [second]
    for wrong in (first, "zz", ""):
        answer = await server.post(SCHEDULED, f"{SCHEDULED}/cancel", id=wrong)
        assert answer.status_code == 404


async def test_a_long_list_has_pages(server: Watched) -> None:
    ids = await schedule(server, *[b"%d" % number for number in range(150)])
    page = await server.page(SCHEDULED)
    assert (page.count(">Cancel<"), f"?after={ids[99]}" in page) == (100, True)
    page = await server.page(SCHEDULED, after=ids[99])
    assert (page.count(">Cancel<"), ids[100] in page) == (50, True)


async def test_a_read_only_console_lists_them_without_buttons(anyio_backend: object) -> None:
    async with watched(is_read_only=True) as server:
        [waiting] = await schedule(server, b"a")
        assert "Cancel" not in await server.page(SCHEDULED)
        answer = await server.post(SCHEDULED, f"{SCHEDULED}/cancel", id=waiting)
        assert answer.status_code == 403
        assert await left(server) == [waiting]


async def test_a_reader_sees_them_and_cannot_cancel(guarded: tuple[Watched, Doors]) -> None:
    server, doors = guarded
    [waiting] = await schedule(server, b"a")
    await doors.allow("reader", [Action.DESCRIBE, Action.CONSUME], "ns", "t")
    await server.sign_in(await doors.token("reader"))
    page = await server.page(SCHEDULED)
    assert (waiting in page, "Cancel" in page) == (True, False)
    answer = await server.post(SCHEDULED, f"{SCHEDULED}/cancel", id=waiting)
    assert answer.status_code == 403
    assert await left(server) == [waiting]
