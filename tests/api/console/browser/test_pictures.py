"""The pictures in README and docs/console.md: TMS_PICTURES=write has this test make them anew."""

import os
import re

from playwright.sync_api import Browser

from tests.api.console.browser.shop import NS, ORDERS_PAGE, Shop
from tests.api.console.browser.window import Window
from tests.structure.sources import ROOT

FOLDER = ROOT / "docs/pictures"
SIZE = {"width": 1200, "height": 900}
_SHOWN = re.compile(r"!\[[^]]+\]\(((?:docs/)?pictures/\w+\.png)\)")


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
