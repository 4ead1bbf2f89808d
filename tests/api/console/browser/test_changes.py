"""Each change that a person can make in the console, made in a real browser once."""

import time

import pytest
from anyio.from_thread import BlockingPortal
from playwright.sync_api import Browser, expect

from tests.api.console.browser.window import Window
from tests.api.console.records import FIELD, FIRST, SECOND, avro
from tests.api.console.site import NS, PAGE, TOPIC, Site, site
from tms.core.services.transactions import StartRequest, TransactionStatus
from tms.core.values.message import Message
from tms.core.values.namespaces import NamespaceSettings
from tms.core.values.reading import Reading
from tms.core.values.topic import TopicId

UNFIT = avro(FIELD, {"name": "c", "type": "int"})


@pytest.fixture(scope="module")
def topic(portal: BlockingPortal, open_server: Site) -> TopicId:
    """A topic with some messages."""
    portal.call(open_server.create)
    portal.call(open_server.services.messaging.publish, TOPIC, [b"a", b"b", b"c"])
    return TOPIC


def messages(portal: BlockingPortal, site: Site, topic_id: TopicId) -> list[Message]:
    page = portal.call(site.services.messaging.page, topic_id, Reading(bytes(20), 100))
    return [each for block in page.blocks for each in block]


@pytest.mark.parametrize("has_script", [True, False], ids=["scripts", "no scripts"])
def test_a_topic_from_its_creation_to_its_end(
    chromium: Browser, portal: BlockingPortal, open_server: Site, *, has_script: bool
) -> None:
    messaging, topic_id = open_server.services.messaging, TopicId(NS, "life")
    with Window(chromium, open_server.url, java_script_enabled=has_script) as window:
        page = window.go(f"topics?namespace={NS}")
        window.unfold("Create a topic")
        page.get_by_label("Name", exact=True).fill("life")
        window.submit("Create")
        expect(page.get_by_role("heading", name="ns:life")).to_be_visible()

        window.unfold("Change the settings")
        page.get_by_label("Time to live").fill("3600")
        page.get_by_label("Other properties").fill("colour=green")
        assert window.submit("Change") == "The settings were changed."
        found = portal.call(messaging.topic, topic_id)
        assert (found.ttl_s, found.properties["colour"]) == (3600, "green")

        page.get_by_role("link", name="Messages", exact=True).click()
        window.unfold("Publish a message")
        page.get_by_label("Payload").fill("first\nsecond ü")
        page.get_by_label("Key", exact=True).fill("k")
        page.get_by_label("Headers").fill("a: b")
        assert window.submit("Publish").startswith("Published with the id")
        [sent] = messages(portal, open_server, topic_id)
        assert (sent.payload, sent.key, sent.headers) == (
            "first\nsecond ü".encode(),
            b"k",
            {"a": b"b"},
        )
        page.locator("td.time a").click()
        expect(page.locator("pre")).to_have_text("first\nsecond ü")

        page.goto(f"namespaces/{NS}/topics/life")
        window.unfold("Trim")
        page.get_by_label("Before (UTC)").fill(str(time.time_ns() // 1_000_000))
        page.locator("details", has_text="Before").get_by_label("to confirm").fill("life")
        assert window.submit("Trim") == "The topic was trimmed."
        assert messages(portal, open_server, topic_id) == []

        window.unfold("Delete")
        page.locator("details", has_text="This deletes").get_by_label("to confirm").fill("life")
        assert window.submit("Delete") == "ns:life was deleted."
        assert "life" not in portal.call(messaging.topics, NS)


def test_a_group_is_paused_continues_and_is_moved(
    window: Window, portal: BlockingPortal, open_server: Site, topic: TopicId
) -> None:
    groups = open_server.services.groups
    portal.call(groups.create_group, topic, "g")
    page = window.go("readers")
    page.get_by_role("link", name="g", exact=True).click()
    window.submit("Pause")
    expect(page.locator(".warn")).to_have_text("paused")
    assert portal.call(groups.group, topic, "g").settings.paused
    window.submit("Resume")
    assert not portal.call(groups.group, topic, "g").settings.paused

    page.get_by_role("combobox", name="To").select_option("the end of the topic")
    page.get_by_label("to confirm").fill("g")
    assert window.submit("Move") == "The reader was moved."
    assert portal.call(groups.group, topic, "g").state.unread == 0


def test_the_position_of_a_subscription_is_moved_behind_a_message(
    window: Window, portal: BlockingPortal, open_server: Site, topic: TopicId
) -> None:
    subscriptions = open_server.services.subscriptions
    portal.call(subscriptions.create_subscription, topic, "s")
    [message, *_] = messages(portal, open_server, topic)
    page = window.go("readers/ns/t/s")
    page.get_by_role("combobox", name="To").select_option("after a message")
    page.get_by_label("message id").fill(message.id.hex())
    page.get_by_label("to confirm").fill("s")
    assert window.submit("Move") == "The reader was moved."
    assert portal.call(subscriptions.subscription, topic, "s").after == message.id


def test_a_name_that_is_typed_wrong_changes_nothing(
    window: Window, portal: BlockingPortal, open_server: Site, topic: TopicId
) -> None:
    page = window.go(PAGE)
    window.unfold("Delete")
    page.locator("details", has_text="This deletes").get_by_label("to confirm").fill("T")
    window.submit("Delete")
    expect(page.get_by_text("type t to confirm")).to_be_visible()
    assert "t" in portal.call(open_server.services.messaging.topics, NS)
    window.has_refused(400)


def test_a_transaction_is_invalidated(
    window: Window, portal: BlockingPortal, open_server: Site
) -> None:
    transactions = open_server.services.transactions
    started = portal.call(transactions.start, StartRequest(client="idle")).transaction_id
    page = window.go("transactions")
    page.get_by_role("link", name=str(started)).click()
    page.get_by_label("to confirm").fill(str(started))
    window.submit("Invalidate")
    info = portal.call(transactions.info, started)
    assert info.status is TransactionStatus.INVALID


def test_a_schema_is_checked(window: Window, portal: BlockingPortal, open_server: Site) -> None:
    portal.call(open_server.services.schemas.register, "s", FIRST)
    page = window.go("schemas")
    page.get_by_role("link", name="s", exact=True).click()
    page.get_by_label("Text").fill(SECOND)
    assert window.submit("Check").startswith("The schema is compatible")
    page.get_by_label("Text").fill(UNFIT)
    window.submit("Check")
    expect(page.get_by_role("alert")).to_contain_text("The field c at path")


def test_a_namespace_gets_settings_and_loses_them(
    window: Window, portal: BlockingPortal, open_server: Site
) -> None:
    namespaces = open_server.services.namespaces
    page = window.go("namespaces")
    page.get_by_label("Namespace").fill("bounded")
    window.submit("Show")
    window.unfold("Change the settings")
    page.get_by_label("ttl_s_max").fill("3600")
    window.submit("Change")
    assert portal.call(namespaces.namespace, "bounded").settings == NamespaceSettings(
        ttl_s_max=3600
    )
    page.goto("namespaces/bounded")
    window.unfold("Delete the settings")
    page.get_by_label("to confirm").fill("bounded")
    window.submit("Delete the settings")
    assert portal.call(namespaces.namespace, "bounded").version is None


def test_a_pass_of_cleanup_is_run(
    window: Window, portal: BlockingPortal, open_server: Site
) -> None:
    window.go("cleanup")
    assert window.submit("Run a pass now") == "The pass has ended."
    assert open_server.services.cleanup is not None
    assert portal.call(open_server.services.cleanup.state).passes == 1


def test_new_messages_come_by_themselves(
    window: Window, portal: BlockingPortal, open_server: Site, topic: TopicId
) -> None:
    page = window.go(f"{PAGE}/messages")
    portal.call(open_server.services.messaging.publish, topic, [b"news"])
    expect(page.get_by_text("news", exact=True)).to_be_visible()


def test_a_read_only_console_has_no_form_that_changes_something(
    chromium: Browser, portal: BlockingPortal
) -> None:
    with portal.wrap_async_context_manager(site(is_read_only=True)) as served:
        portal.call(served.create)
        portal.call(served.services.groups.create_group, TOPIC, "g")
        started = portal.call(served.services.transactions.start, StartRequest())
        with Window(chromium, served.url) as window:
            of_transaction = f"transactions/{started.transaction_id}"
            for path in (*("topics", PAGE, f"{PAGE}/messages", "readers/ns/t/g"), of_transaction):
                assert window.go(path).locator("form[method=post]").count() == 0, path
            for path in ("cleanup", f"namespaces/{NS}"):
                assert window.go(path).locator("form[method=post]").count() == 0, path
