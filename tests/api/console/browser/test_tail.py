"""The messages that a topic's page shows as they are published."""

from collections.abc import Iterator
from typing import cast
from urllib.parse import urlsplit

import pytest
from anyio.from_thread import BlockingPortal
from playwright.sync_api import Browser, Page, expect

from tests.api.console.browser.looks import looked_at
from tests.api.console.browser.window import Window
from tests.api.console.site import NS, PAGE, TOPIC, Site
from tests.api.doors import Doors
from tests.servers.proxy import Proxy
from tms.core.values.frame import bodies_of, encode_body
from tms.messaging.service import Service
from tms.security.resources import Action

ROWS_MAX = 100
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def topic(portal: BlockingPortal, open_server: Site) -> None:
    portal.call(open_server.create)
    portal.call(open_server.services.messaging.publish, TOPIC, [b"earlier"])


@pytest.fixture
def proxy(open_server: Site) -> Iterator[Proxy]:
    with Proxy(urlsplit(open_server.url).port or 0) as opened:
        yield opened


def publish(portal: BlockingPortal, site: Site, *bodies: bytes) -> None:
    portal.call(site.services.messaging.publish, TOPIC, bodies)


def unfolded(window: Window) -> Page:
    """Open the page of the topic, and its live messages."""
    page = window.go(PAGE)
    window.unfold("Live messages")
    expect(page.locator("[data-stream] [role=status]")).to_have_text("Waiting for messages.")
    return page


def payloads(page: Page) -> list[str]:
    return page.locator("[data-stream] td.payload").all_inner_texts()


@pytest.mark.usefixtures("topic")
def test_new_messages_are_shown_harmlessly(
    window: Window, portal: BlockingPortal, open_server: Site
) -> None:
    page = unfolded(window)
    keyed = encode_body(HOSTILE.encode(), HOSTILE.encode(), {"h": HOSTILE.encode()})
    publish(portal, open_server, *bodies_of([keyed, encode_body(None, b"\xff", {})]))
    row = page.locator("[data-stream] tbody tr").last
    expect(row).to_contain_text(f"h: {HOSTILE}")
    assert payloads(page) == ["no payload", HOSTILE]
    assert looked_at(page) == []
    window.unfold("Live messages")
    row.locator("a").click()
    expect(page.locator("pre")).to_have_text(HOSTILE)


@pytest.mark.usefixtures("topic")
def test_the_newest_of_many_are_shown(
    window: Window, portal: BlockingPortal, open_server: Site
) -> None:
    page = unfolded(window)
    count = 3 * ROWS_MAX
    publish(portal, open_server, *(b"%d" % number for number in range(count)))
    expect(page.locator("[data-stream] [role=status]")).to_contain_text(f"{count} messages")
    assert payloads(page) == [str(count - 1 - row) for row in range(ROWS_MAX)]


@pytest.mark.usefixtures("topic")
def test_a_broken_connection_loses_and_repeats_no_message(
    chromium: Browser, portal: BlockingPortal, open_server: Site, proxy: Proxy
) -> None:
    with Window(chromium, f"http://{proxy.address}") as window:
        page = unfolded(window)
        for text in (b"one", b"two"):
            proxy.close()
            publish(portal, open_server, text)
            window.until(lambda: any("ERR_" in fault for fault in window.faults))
            window.faults = [fault for fault in window.faults if "ERR_" not in fault]
            proxy.open()
            expect(page.locator("[data-stream] td.payload").first).to_have_text(text.decode())
        publish(portal, open_server, b"three")
        expect(page.locator("[data-stream] td.payload")).to_have_text(["three", "two", "one"])


@pytest.mark.usefixtures("topic")
def test_a_folded_list_has_no_stream(
    window: Window, portal: BlockingPortal, open_server: Site
) -> None:
    page = unfolded(window)
    publish(portal, open_server, b"seen")
    expect(page.locator("[data-stream] td.payload")).to_have_text(["seen"])
    service = cast("Service", open_server.services.messaging)
    state = service._states.loaded(TOPIC)
    assert state is not None
    window.unfold("Live messages")
    window.until(lambda: not state._waiters)
    publish(portal, open_server, b"while it was folded")
    window.unfold("Live messages")
    expect(page.locator("[data-stream] td.payload")).to_have_text(["while it was folded", "seen"])


def test_a_stream_needs_its_right_until_its_end(
    chromium: Browser, portal: BlockingPortal, guarded: Site
) -> None:
    doors = guarded.doors
    assert isinstance(doors, Doors)
    portal.call(guarded.create)
    portal.call(doors.allow, "follower", [Action.CONSUME, Action.DESCRIBE], NS, TOPIC.name)
    portal.call(doors.allow, "keeper", [Action.DESCRIBE], NS, TOPIC.name)
    with Window(chromium, guarded.url) as window:
        window.sign_in(portal.call(doors.token, "keeper"))
        assert window.go(PAGE).locator("[data-stream]").count() == 0
    with Window(chromium, guarded.url) as window:
        window.sign_in(portal.call(doors.token, "follower"))
        page = unfolded(window)
        portal.call(doors.grants.remove_token, portal.call(doors.id_of, "follower"))
        status = page.locator("[data-stream] [role=status]")
        publish(portal, guarded, b"secret")
        expect(status).to_have_text("The connection broke. It is opened again.")
        assert payloads(page) == []
        window.faults.clear()  # the broken answer, and the one that refused the next
