"""Topics in the console: lists, one topic, and what may be changed."""

import pytest

from tests.api.console.site import NS, PAGE, TOPIC, Site
from tests.api.console.watched import Watched
from tests.api.doors import ROOT, Doors
from tms.core.errors import TopicNotFound
from tms.core.limits import Limits
from tms.core.services.transactions import StartRequest
from tms.core.values.group_settings import GroupSettings
from tms.core.values.topic import TopicId
from tms.security.resources import Action

pytestmark = pytest.mark.anyio


async def test_topics_are_found_in_pages_and_in_either_order(open_site: Site) -> None:
    for number in range(103):
        await open_site.create(TopicId(NS, f"t{number:03}"))
    browser = open_site.browser
    first = await browser.get("topics", namespace=NS)
    assert "t000" in first
    assert "t099" in first
    assert "t100" not in first
    assert "Next page" in first
    second = await browser.get("topics", namespace=NS, after="t099")
    assert "t102" in second
    assert "t099" not in second
    assert "First page" in second
    down = await browser.get("topics", namespace=NS, sort="down")
    assert down.index("t102") < down.index("t101")
    assert "t002" not in down
    assert "t050" in await browser.get("topics", namespace=NS, search="05")
    assert "There are none" in await browser.get("topics", namespace=NS, search="x")


async def test_topics_are_sorted_by_their_rates(server: Watched) -> None:
    messaging = server.services.messaging
    for name in ("large", "many", "quiet"):
        await messaging.create_topic(TopicId(NS, name))
    await server.watch.look()
    await messaging.publish(TopicId(NS, "large"), [b"x" * 20_000])
    await messaging.publish(TopicId(NS, "many"), [b"x"] * 20)
    server.passes(10)
    await server.watch.look()

    page = await server.page("/topics", namespace=NS, sort="messages_in")
    assert page.index(">many</a>") < page.index(">large</a>")
    assert '<td class="number">2/s</td>' in page
    assert ">quiet</a>" not in page
    page = await server.page("/topics", namespace=NS, sort="bytes_in")
    assert page.index(">large</a>") < page.index(">many</a>")
    assert ">quiet</a>" in await server.page("/topics", namespace=NS)
    assert ">large</a>" not in await server.page(
        "/topics", namespace=NS, search="man", sort="bytes_in"
    )


async def test_rates_of_topics_are_for_operators(guarded: tuple[Watched, Doors]) -> None:
    server, doors = guarded
    await doors.allow("reader", [Action.CONSUME], NS)
    await server.sign_in(await doors.token("reader"))
    page = await server.page("/topics", namespace=NS, sort="messages_in")
    assert ">t</a>" in page
    assert "Messages in" not in page


async def test_a_topic_is_created_changed_trimmed_and_deleted(open_site: Site) -> None:
    browser, messaging = open_site.browser, open_site.services.messaging
    await browser.get("topics", namespace=NS)
    created = await browser.post(
        f"namespaces/{NS}/topics",
        {"name": "t", "ttl": "3600", "cleanup": "compact", "others": "owner=me"},
    )
    assert "The topic was created." in created.text
    assert "owner" in created.text
    topic = await messaging.topic(TOPIC)
    assert (topic.ttl_s, topic.properties) == (3600, {"cleanup": "compact", "owner": "me"})
    await browser.post(f"{PAGE}/change", {"ttl": "1800", "cleanup": ""})
    topic = await messaging.topic(TOPIC)
    assert (topic.ttl_s, topic.properties) == (1800, {})
    await messaging.publish(TOPIC, [b"x"])
    refused = await browser.post(f"{PAGE}/trim", {"before": "2026-01-01", "typed": "not t"})
    assert refused.status_code == 400
    assert (await messaging.topic(TOPIC)).live_from_ms == 0
    await browser.post(f"{PAGE}/trim", {"before": "2026-01-01", "typed": "t"})
    assert (await messaging.topic(TOPIC)).live_from_ms == 1_767_225_600_000
    assert (await browser.post(f"{PAGE}/delete", {"typed": "tt"})).status_code == 400
    assert (await messaging.topic(TOPIC)).exists
    assert "was deleted" in (await browser.post(f"{PAGE}/delete", {"typed": "t"})).text
    with pytest.raises(TopicNotFound):
        await messaging.topic(TOPIC)


async def test_a_bad_setting_is_reported_and_creates_nothing(open_site: Site) -> None:
    await open_site.browser.get("topics", namespace=NS)
    for fields in ({"ttl": "-1"}, {"others": "no equals"}, {"retention_bytes": "many"}):
        answer = await open_site.browser.post(f"namespaces/{NS}/topics", {"name": "t", **fields})
        assert answer.status_code == 400
        assert "text/html" in answer.headers["content-type"]
    assert await open_site.services.messaging.topics(NS) == []


async def test_a_topic_shows_its_readers_and_where_committed_ones_stop(open_site: Site) -> None:
    services = open_site.services
    await open_site.create()
    ids = await services.messaging.publish(TOPIC, [b"a", b"b", b"c"])
    await services.subscriptions.create_subscription(TOPIC, "half-way", ids[1])
    await services.subscriptions.create_subscription(TOPIC, "at-the-end", ids[2])
    page = await open_site.browser.get(PAGE)
    assert "half-way" in page
    assert '<circle class="reader"' in page
    assert '<rect class="stop"' not in page
    row = page[page.index(">half-way</a>") :]
    assert '<td class="number">1</td>' in row[: row.index("</tr>")]
    transaction = await services.transactions.start(StartRequest())
    await services.messaging.publish(TOPIC, [b"d"], transaction.write_pointer)
    page = await open_site.browser.get(PAGE)
    assert '<rect class="stop"' in page
    assert str(transaction.transaction_id) in page
    assert "style=" not in page


async def test_a_group_is_behind_by_what_a_transaction_holds_up(open_site: Site) -> None:
    services = open_site.services
    await open_site.create()
    await services.groups.create_group(TOPIC, "g")
    started = await services.transactions.start(StartRequest())
    await services.messaging.publish(TOPIC, [b"held"], started.write_pointer)
    await services.messaging.publish(TOPIC, [b"behind it"])
    for path in (PAGE, "readers"):
        page = await open_site.browser.get(path)
        row = page[page.index(">g</a>") :]
        assert '<td class="number">2</td>' in row[: row.index("</tr>")], path


async def test_an_empty_topic_is_shown(open_site: Site) -> None:
    await open_site.create()
    assert "The topic is empty." in await open_site.browser.get(PAGE)


async def test_only_permitted_topics_and_buttons_are_shown(guarded_site: Site) -> None:
    doors = guarded_site.doors
    assert doors is not None
    for name in ("mine", "theirs"):
        await guarded_site.create(TopicId(NS, name))
    await doors.allow("reader", [Action.CONSUME], NS, "mine")
    browser = await guarded_site.as_somebody("reader")
    listed = await browser.get("topics", namespace=NS)
    assert "mine" in listed
    assert "theirs" not in listed
    assert "Create a topic" not in listed
    page = await browser.get(f"namespaces/{NS}/topics/mine")
    assert "Delete" not in page
    assert "Change the settings" not in page
    assert (await browser.ask(f"namespaces/{NS}/topics/theirs")).status_code == 404
    for path, typed in (("delete", "mine"), ("change", "")):
        answer = await browser.post(f"namespaces/{NS}/topics/mine/{path}", {"typed": typed})
        assert answer.status_code == 403
    assert (await browser.post(f"namespaces/{NS}/topics", {"name": "new"})).status_code == 403
    assert sorted(await guarded_site.services.messaging.topics(NS)) == ["mine", "theirs"]


async def test_the_log_is_shown_to_who_may_consume_alone(guarded_site: Site) -> None:
    await guarded_site.create()
    services, doors = guarded_site.services, guarded_site.doors
    assert doors is not None
    ids = await services.messaging.publish(TOPIC, [b"a", b"b"])
    await services.subscriptions.create_subscription(TOPIC, "half-way", ids[0])
    await services.subscriptions.create_subscription(TOPIC, "other", ids[0])
    await doors.allow("describes", [Action.DESCRIBE], NS, "t")
    await doors.allow("consumes", [Action.CONSUME], NS, "t")
    await doors.allow_subscriptions("consumes", NS, "t", "half-way")
    page = await (await guarded_site.as_somebody("describes")).get(PAGE)
    for hidden in ("<svg", "Approximate size", "half-way"):
        assert hidden not in page
    page = await (await guarded_site.as_somebody("consumes")).get(PAGE)
    for shown in ("<svg", "Approximate size", "half-way"):
        assert shown in page
    assert ">other</a>" not in page


async def test_who_may_manage_does_so(guarded_site: Site) -> None:
    browser = await guarded_site.as_somebody(ROOT)
    assert "Create a topic" in await browser.get("topics", namespace=NS)
    await browser.post(f"namespaces/{NS}/topics", {"name": "t"})
    await browser.get(PAGE)
    await browser.post(f"{PAGE}/delete", {"typed": "t"})
    assert await guarded_site.services.messaging.topics(NS) == []


async def test_hostile_properties_are_shown_harmlessly(open_site: Site) -> None:
    await open_site.create(TOPIC, **{"<b>\u202e": "</textarea><script>alert(1)</script>\x1b[31m"})
    page = await open_site.browser.get(PAGE)
    assert "<dt>&lt;b&gt;\\u202e</dt>" in page
    assert "<script>alert" not in page
    assert "</textarea><" not in page.replace("</textarea></label>", "")


async def test_many_readers_are_shown_by_those_furthest_behind(open_site: Site) -> None:
    await open_site.create()
    ids = await open_site.services.messaging.publish(TOPIC, [b""] * 130)
    for number in range(130):
        subscriptions = open_site.services.subscriptions
        await subscriptions.create_subscription(TOPIC, f"s{number:03}", ids[number])
    page = await open_site.browser.ask(PAGE)
    assert "s000" in page.text
    assert "s129" not in page.text
    assert "Shown: the 100 of 130 that are furthest behind." in page.text
    assert "118 more readers not shown." in page.text
    assert len(page.content) <= 200 * 1024


async def test_a_group_is_among_the_readers(open_site: Site) -> None:
    await open_site.create()
    await open_site.services.messaging.publish(TOPIC, [b"a", b"b"])
    settings = GroupSettings(paused=True)
    await open_site.services.groups.create_group(TOPIC, "workers", settings)
    page = await open_site.browser.get(PAGE)
    row = page[page.index(">workers</a>") :]
    row = row[: row.index("</tr>")]
    assert "group, paused" in row
    assert '<td class="number">2</td>' in row


async def test_the_rates_of_the_last_hour_are_drawn(guarded_site: Site) -> None:
    await guarded_site.create()
    services, doors = guarded_site.services, guarded_site.doors
    assert doors is not None
    browser = await guarded_site.as_somebody(ROOT)
    assert "Messages in the last hour" not in await browser.get(PAGE)
    watch = guarded_site.app.context.watch
    for _ in range(3):
        await watch.look()
        await services.messaging.publish(TOPIC, [b"x"] * 100)
    page = await browser.get(PAGE)
    assert "Messages in the last hour" in page
    assert "charts.js" in page
    await doors.allow("reader", [Action.CONSUME], NS, "t")
    page = await (await guarded_site.as_somebody("reader")).get(PAGE)
    assert "[&#34;in&#34;]" in page
    assert "&#34;out&#34;" not in page


async def test_the_largest_properties_make_no_large_page(open_site: Site) -> None:
    limits = Limits()
    most = {f"p{each}": "" for each in range(limits.topic_properties_max)}
    await open_site.create(TOPIC, **dict.fromkeys(most, "'<\"" * 300))
    await open_site.create(TopicId(NS, "many"), **most)
    long = {"subject": "<" * 1_000}
    for number in range(100):
        await open_site.create(TopicId("long", f"t{number}"), **long)
    for path in (PAGE, f"namespaces/{NS}/topics/many", "topics?namespace=long"):
        assert len((await open_site.browser.ask(path)).content) <= 200 * 1024
    page = await open_site.browser.get(PAGE)
    assert "Change the settings" not in page
    assert "too many properties to change here" in page
