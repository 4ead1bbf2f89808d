"""The console by keyboard alone: the focus is visible, and everything can be reached."""

import pytest
from anyio.from_thread import BlockingPortal
from playwright.sync_api import Browser, Page, expect

from tests.api.console.browser.window import Window
from tests.api.console.site import NS, PAGE, TOPIC, Site
from tms.core.values.topic import TopicId

PRESSES_MAX = 200
_FOCUSED = """() => {
  const at = document.activeElement;
  if (at === document.body) return null;
  const {outlineStyle, outlineWidth} = getComputedStyle(at);
  const {width, height, left, top, bottom} = at.getBoundingClientRect();
  const is_seen = width > 0 && height > 0 && left >= 0 && bottom > 0 && top < innerHeight;
  const is_marked = outlineStyle !== "none" && parseFloat(outlineWidth) >= 1;
  const name = at.labels?.[0]?.firstChild.textContent ?? at.textContent;
  return {name: name.trim(), is_clear: is_seen && is_marked};
}"""


@pytest.fixture(scope="module", autouse=True)
def reader(portal: BlockingPortal, open_server: Site) -> str:
    """Create a subscription of a topic that has a message; return its name."""
    services, name = open_server.services, "billing"
    portal.call(open_server.create)
    portal.call(services.messaging.publish, TOPIC, [b"a"])
    portal.call(services.subscriptions.create_subscription, TOPIC, name)
    return name


def tab(page: Page) -> str:
    """Move the focus to the next visible element; return its name, empty at the end."""
    page.keyboard.press("Tab")
    focused = page.evaluate(_FOCUSED)
    if focused is None:
        return ""
    assert focused["is_clear"], focused
    return str(focused["name"])


def tab_to(page: Page, name: str) -> None:
    for _ in range(PRESSES_MAX):
        if tab(page) == name:
            return
    raise AssertionError(f"{name} is not reached")


def test_all_of_a_page_is_reached_and_seen(
    chromium: Browser, open_server: Site, reader: str
) -> None:
    with Window(chromium, open_server.url) as window:
        page = window.go(PAGE)
        names = []
        while name := tab(page):
            names.append(name)
            assert len(names) < PRESSES_MAX
        assert names[:3] == ["Skip to content", "TMS", "Topics"]
        assert {"Messages", reader, "Change the settings", "Trim", "Delete"} <= set(names)


def test_a_topic_is_opened_and_one_created(
    chromium: Browser, portal: BlockingPortal, open_server: Site
) -> None:
    with Window(chromium, open_server.url) as window:
        page = window.go("")
        assert tab(page) == "Skip to content"
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()

        page = window.go(f"topics?namespace={NS}")
        tab_to(page, "t")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="ns:t")).to_be_visible()

        page = window.go(f"topics?namespace={NS}")
        tab_to(page, "Create a topic")
        page.keyboard.press("Enter")
        tab_to(page, "Name")
        page.keyboard.type("typed")
        tab_to(page, "Create")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="ns:typed")).to_be_visible()
    assert portal.call(open_server.services.messaging.topic, TopicId(NS, "typed"))
