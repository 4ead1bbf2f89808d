"""Each page in a real browser, narrow and wide, light and dark: no faults, and accessible to all.

TMS_PICTURES=write makes the pictures in README and docs/console.md again.
"""

import os
import random
import re

from anyio.from_thread import BlockingPortal
from playwright.sync_api import Browser, expect

from tests.api.console.browser.axe import complaints
from tests.api.console.browser.looks import looked_at
from tests.api.console.browser.shop import NS, ORDERS_PAGE, Shop
from tests.api.console.browser.window import Window
from tests.scale import scaled
from tests.structure.sources import ROOT

FOLDER = ROOT / "docs/pictures"
SIZE = {"width": 1200, "height": 900}
_SHOWN = re.compile(r"!\[[^]]+\]\(((?:docs/)?pictures/\w+\.png)\)")


def test_each_page_at_each_width_in_light_and_dark(chromium: Browser, shop: Shop) -> None:
    found: list[str] = []
    with Window(chromium, shop.site.url) as window:
        for path in random.sample(shop.pages, scaled(len(shop.pages))):
            page = window.go(path)
            found += [f"/{path} {each}" for each in looked_at(page)]
        page.goto("namespaces/shop/topics/none")
        found += [f"an error: {each}" for each in looked_at(page)]
        window.has_refused(404)
    assert not found, "\n".join(found)


def test_a_page_that_bars_people_is_found(chromium: Browser, shop: Shop) -> None:
    with Window(chromium, shop.site.url) as window:
        window.page.set_content("<html lang=en><title>t</title><main><h1>h</h1><input></main>")
        [told] = complaints(window.page)
    assert told.startswith("label (critical)")


def test_each_page_can_be_read_without_scripts(chromium: Browser, shop: Shop) -> None:
    with Window(chromium, shop.site.url, java_script_enabled=False) as window:
        for path in random.sample(shop.pages, scaled(len(shop.pages))):
            page = window.go(path)
            expect(page.locator("main h1")).to_be_visible()
        page = window.go(ORDERS_PAGE)
        expect(page.locator("svg.log")).to_be_visible()
        window.unfold("Show as a table")
        expect(page.locator("details[open] tbody tr").first).to_be_visible()


def test_the_pictures_of_the_docs_are_made_here(chromium: Browser, shop: Shop) -> None:
    pages = {
        "overview": "",
        "topic": ORDERS_PAGE,
        "messages": f"{ORDERS_PAGE}/messages?id={shop.before}",
        "transaction": f"transactions/{shop.transaction}",
        "group": f"readers/{NS}/orders/packing",
    }
    made = set()
    with Window(chromium, shop.site.url, viewport=SIZE, color_scheme="light") as window:
        for name, path in pages.items():
            picture = window.go(path).screenshot()
            made.add(FOLDER / f"{name}.png")
            if os.environ.get("TMS_PICTURES") == "write":
                FOLDER.mkdir(exist_ok=True)
                (FOLDER / f"{name}.png").write_bytes(picture)
    shown = {
        (file.parent / each).resolve()
        for file in (ROOT / "README.md", ROOT / "docs/console.md")
        for each in _SHOWN.findall(file.read_text(encoding="utf-8"))
    }
    assert shown == made == set(FOLDER.iterdir())


def test_a_live_page_keeps_what_is_open_in_it(
    chromium: Browser, portal: BlockingPortal, shop: Shop
) -> None:
    with Window(chromium, shop.site.url) as window:
        window.page.clock.install()
        page = window.go("")
        window.unfold("Show as a table")
        time = page.locator("details[open] tbody td").first
        expect(time).to_be_visible()
        before = time.inner_text()
        shop.clock.advance(60_000)
        portal.call(shop.site.app.context.watch.look)
        page.clock.run_for(11_000)
        expect(time).not_to_have_text(before)
        expect(time).to_be_visible()
        expect(page.locator(".chart canvas").first).to_be_visible()
