"""The page of a group's dead letters: what it shows, to whom, and its forms."""

import pytest

from tests.api.console.site import TOPIC
from tests.api.console.watched import Watched, watched
from tests.api.doors import Doors
from tests.waiting import until
from tms.core.values.group_settings import GroupSettings
from tms.core.values.groups import Nacks, Settle, Take
from tms.core.values.topic import TopicId
from tms.security.resources import Action

pytestmark = pytest.mark.anyio
GROUP = "/readers/ns/t/g"
DEAD = f"{GROUP}/dead"
HOSTILE = "<img src=x onerror=alert(1)>"


async def with_dead_letters(server: Watched, *payloads: bytes) -> None:
    groups = server.services.groups
    await groups.create_group(TOPIC, "g", GroupSettings(attempts_max=1))
    await server.publish(*payloads)
    taken = await groups.take(TOPIC, "g", Take("worker-1", len(payloads)))
    assert taken.delivery is not None
    await groups.settle(
        TOPIC, "g", "worker-1", Settle(nacks=[Nacks(taken.delivery, reason=HOSTILE)])
    )

    async def are_dead() -> bool:
        return len(await left(server)) == len(payloads)

    await until(are_dead)


async def left(server: Watched) -> list[str]:
    found = await server.services.groups.dead_letters(TOPIC, "g")
    return [each.id.hex() for each in found.letters]


async def test_dead_letters_are_listed_redriven_and_dropped(server: Watched) -> None:
    await with_dead_letters(server, b"1", b"2", b"3")
    assert DEAD in await server.page(GROUP)
    first, second, third = await left(server)
    page = await server.page(DEAD)
    assert page.index(first) < page.index(second) < page.index(third)
    assert page.count("<td>attempts</td>") == 3
    assert "&lt;img" in page
    assert "<img" not in page

    assert (await server.post(DEAD, f"{DEAD}/redrive", id=second)).status_code == 303
    assert (await server.post(DEAD, f"{DEAD}/drop", id=first)).status_code == 303
    assert await left(server) == [third]
    again = await server.post(DEAD, f"{DEAD}/redrive", id=second)
    assert again.status_code == 303, "twice does it once"
    assert (await server.services.groups.group(TOPIC, "g")).state.open == 1
    assert (await server.post(DEAD, f"{DEAD}/redrive")).status_code == 303
    assert "There are none." in await server.page(DEAD)
    state = (await server.services.groups.group(TOPIC, "g")).state
    assert state.open == 2
    for form in ("redrive", "drop"):
        assert (await server.post(GROUP, f"{DEAD}/{form}", id="zz")).status_code == 400
    assert (await server.post(GROUP, f"{DEAD}/drop")).status_code == 400


async def test_a_group_without_dead_letters_has_no_page(server: Watched) -> None:
    await server.services.groups.create_group(TOPIC, "g")
    assert DEAD not in await server.page(GROUP)
    assert (await server.http.get(f"/console{DEAD}")).status_code == 400


async def test_a_read_only_console_lists_them_without_buttons(anyio_backend: object) -> None:
    async with watched(is_read_only=True) as server:
        await with_dead_letters(server, b"1")
        assert "Redrive" not in await server.page(DEAD)
        answer = await server.post(DEAD, f"{DEAD}/redrive")
        assert answer.status_code == 403
        assert len(await left(server)) == 1


async def test_who_may_not_read_their_topic_neither_sees_nor_redrives_them(
    guarded: tuple[Watched, Doors],
) -> None:
    server, doors = guarded
    await with_dead_letters(server, b"1")
    await doors.allow_subscriptions("shop", "ns", "t", "g")
    await server.sign_in(await doors.token("shop"))
    assert (await server.http.get(f"/console{DEAD}")).status_code in (403, 404)
    [letter] = await left(server)
    for form in ("redrive", "drop"):
        answer = await server.post(GROUP, f"{DEAD}/{form}", id=letter)
        assert answer.status_code in (403, 404)
    assert await left(server) == [letter]

    dead = TopicId("ns", "t--dead")
    await doors.allow("shop", [Action.CONSUME], dead.namespace, dead.name)
    assert letter in await server.page(DEAD)
    assert (await server.post(DEAD, f"{DEAD}/redrive", id=letter)).status_code == 303
    assert await left(server) == []
