"""The pages of readers: what they show, to whom, and their forms."""

import httpx
import pytest

from tests.api.console.site import TOPIC
from tests.api.console.watched import Watched, charts_of, watched
from tests.api.doors import Doors
from tms.core.values.caller import Caller
from tms.core.values.groups import Acks, Nacks, Settle, Take
from tms.core.values.message import id_after, published_ms
from tms.core.values.topic import TopicId
from tms.security.resources import Action

pytestmark = pytest.mark.anyio
HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m\u202eevil"
SINGLE, GROUP = "/readers/ns/t/s", "/readers/ns/t/g"


@pytest.fixture
async def guarded(guarded: tuple[Watched, Doors]) -> tuple[Watched, Doors]:
    """A server with two subscriptions."""
    for name in ("s", "hidden"):
        await guarded[0].services.subscriptions.create_subscription(TOPIC, name)
    return guarded


async def test_readers_are_listed_the_longest_behind_first(server: Watched) -> None:
    subscriptions = server.services.subscriptions
    await server.publish(b"a")
    server.passes(30)
    await subscriptions.create_subscription(TOPIC, "late")
    other = TopicId("ns", "other")
    await server.services.messaging.create_topic(other)
    await server.services.messaging.publish(other, [b"a"])
    await server.services.groups.create_group(other, "workers")
    await subscriptions.create_subscription(other, "nothing", after=b"\xff" * 20)
    server.passes(10)

    page = await server.page("/readers")
    assert page.index("late</a>") < page.index("workers</a>") < page.index("nothing</a>")
    assert '<td class="number">40 s</td>' in page

    found = await server.page("/readers", search="ns:other work")
    assert "workers" in found
    assert "late" not in found


async def test_readers_come_in_pages(server: Watched) -> None:
    for number in range(150):
        await server.services.subscriptions.create_subscription(TOPIC, f"s{number:03}")

    first = await server.page("/readers", search="s1")
    assert first.count("<tr>") == 1 + 50
    whole = await server.page("/readers")
    assert whole.count("<tr>") == 1 + 100
    assert "readers?from=100" in whole
    assert (await server.page("/readers", **{"from": "100"})).count("<tr>") == 1 + 50


async def test_a_subscription_is_shown_and_moved(server: Watched) -> None:
    subscriptions = server.services.subscriptions
    await subscriptions.create_subscription(TOPIC, "s")
    first, second, third = await server.publish(b"a", b"b", b"c")
    assert "3 messages" in await server.page(SINGLE)

    async def moved(to: str, value: str = "") -> bytes:
        answer = await server.post(SINGLE, f"{SINGLE}/move", to=to, value=value, typed="s")
        assert answer.status_code == 303, answer.text
        after = (await subscriptions.subscription(TOPIC, "s")).after
        assert after is not None
        return after

    assert await moved("id", second.hex()) == second
    assert second.hex() in await server.page(SINGLE)
    assert await moved("end") >= third
    assert id_after(await moved("start")) <= first
    assert id_after(await moved("time", str(published_ms(first)))) <= first
    server.passes(5)
    assert await moved("time", "2099-01-01") > third

    wrong = await server.post(SINGLE, f"{SINGLE}/move", to="start", typed="another")
    assert wrong.status_code == 400
    assert "type s to confirm" in wrong.text
    for to, value in (("nowhere", ""), ("id", "zz"), ("time", "yesterday")):
        answer = await server.post(SINGLE, f"{SINGLE}/move", to=to, value=value, typed="s")
        assert answer.status_code == 400


async def test_a_group_is_shown_paused_and_moved(server: Watched) -> None:
    groups = server.services.groups
    await groups.create_group(TOPIC, "g")
    ids = await server.publish(b"a", b"b", b"c")
    taken = await groups.take(TOPIC, "g", Take("worker-1", 2, lease_s=60))
    assert taken.delivery is not None
    await groups.settle(
        TOPIC, "g", "worker-1", Settle(nacks=[Nacks(taken.delivery, [ids[0]], delay_s=60)])
    )

    page = await server.page(GROUP)
    assert "worker-1" in page
    assert f'{ids[0].hex()}</a></td><td>waiting</td><td class="number">1</td>' in page
    assert f'{ids[1].hex()}</a></td><td>leased</td><td class="number">0</td><td>worker-1' in page

    assert (await server.post(GROUP, f"{GROUP}/pause", paused="true")).status_code == 303
    assert "paused" in await server.page(GROUP)
    assert (await groups.group(TOPIC, "g")).settings.paused
    assert (await server.post(GROUP, f"{GROUP}/pause", paused="false")).status_code == 303
    assert not (await groups.group(TOPIC, "g")).settings.paused

    assert (await server.post(GROUP, f"{GROUP}/move", to="end", typed="g")).status_code == 303
    state = (await groups.group(TOPIC, "g")).state
    assert (state.open, state.unread) == (0, 0)
    assert (await server.post(GROUP, f"{GROUP}/move", to="start", typed="g")).status_code == 303
    assert (await groups.group(TOPIC, "g")).state.unread == 3


async def test_lags_of_the_last_hour_are_drawn(server: Watched) -> None:
    await server.services.subscriptions.create_subscription(TOPIC, "s")
    for _ in range(70):
        await server.publish(b"a")
        await server.watch.look()
        server.passes(60)

    charts = charts_of(await server.page(SINGLE))
    times, messages = charts["Messages behind"]["data"]
    assert len(times) == 60
    assert messages == list(range(11, 71))
    assert charts["Age of the oldest"]["data"][1][-1] == 69 * 60


async def test_open_messages_come_in_pages(server: Watched) -> None:
    await server.services.groups.create_group(TOPIC, "g")
    await server.publish(*[b"m"] * 150)
    taken = await server.services.groups.take(TOPIC, "g", Take("w", 150))
    assert taken.delivery is not None

    page = await server.page(GROUP)
    assert page.count("leased</td>") == 100
    after = page.partition("?after=")[2][:40]
    assert (await server.page(GROUP, after=after)).count("leased</td>") == 50
    await server.services.groups.settle(TOPIC, "g", "w", Settle([Acks(taken.delivery)]))
    assert "leased</td>" not in await server.page(GROUP)


async def test_hostile_names_do_nothing(server: Watched) -> None:
    await server.services.groups.create_group(TOPIC, "g")
    await server.publish(b"a")
    principal = Caller(HOSTILE)
    await server.services.groups.take(TOPIC, "g", Take("m"), caller=principal)

    page = await server.page(GROUP, told=HOSTILE)
    assert page.count("&lt;img") == 2
    for each in (page, await server.page("/readers", search=HOSTILE)):
        assert "<img" not in each
    assert "\x1b" not in page
    assert "\u202e" not in page


async def test_a_forged_form_changes_nothing(server: Watched) -> None:
    await server.services.groups.create_group(TOPIC, "g")
    for csrf in ({}, {"csrf": "x" * 32}):
        answer = await server.http.post(f"/console{GROUP}/pause", data={**csrf, "paused": "true"})
        assert answer.status_code == 403
    assert not (await server.services.groups.group(TOPIC, "g")).settings.paused


async def test_a_read_only_console_has_no_buttons(anyio_backend: object) -> None:
    async with watched(is_read_only=True) as server:
        await server.services.groups.create_group(TOPIC, "g")
        page = await server.page(GROUP)
        assert "<button>Pause" not in page
        assert "<button>Move" not in page
        assert (await server.post(GROUP, f"{GROUP}/pause", paused="true")).status_code == 403


async def test_nobody_is_shown_readers_without_signing_in(
    guarded: tuple[Watched, Doors],
) -> None:
    server, _ = guarded
    for path in ("/readers", SINGLE):
        answer = await server.http.get(f"/console{path}")
        assert answer.status_code == 303
        assert "sign-in" in answer.headers["location"]
        assert "hidden" not in answer.text


async def test_readers_are_shown_to_those_who_may_see_them(
    guarded: tuple[Watched, Doors],
) -> None:
    server, doors = guarded
    await doors.allow_subscriptions("shop", "ns", "t", "s")
    await server.sign_in(await doors.token("shop"))

    page = await server.page("/readers")
    assert "readers/ns/t/s" in page
    assert "hidden" not in page
    assert "<button>Move" in await server.page(SINGLE)
    assert _refused(await server.http.get("/console/readers/ns/t/hidden"))

    await server.sign_in(await doors.token("stranger"))
    page = await server.page("/readers")
    assert "ns:t" not in page
    assert _refused(await server.http.get(f"/console{SINGLE}"))
    assert _refused(await server.post("/readers", f"{SINGLE}/move", to="end", typed="s"))
    assert (await server.services.subscriptions.subscription(TOPIC, "s")).after is None


def _refused(answer: httpx.Response) -> bool:
    return answer.status_code in (403, 404)


async def test_the_list_is_not_for_those_who_may_only_consume(
    guarded: tuple[Watched, Doors],
) -> None:
    server, doors = guarded
    await doors.allow("reader", [Action.CONSUME], "ns", "t")
    await server.sign_in(await doors.token("reader"))

    assert "There are none." in await server.page("/readers")
    assert _refused(await server.http.get(f"/console{SINGLE}"))
