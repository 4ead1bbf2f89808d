"""How an open page looks: narrow or wide, light or dark, with one of each thing unfolded."""

import random
from typing import Literal

from playwright.sync_api import Page

from tests.api.console.browser.axe import complaints
from tests.scale import scaled

LOOKS: tuple[tuple[Literal["light", "dark"], int], ...] = (
    *(("light", 1400), ("light", 360)),
    *(("dark", 1400), ("dark", 360)),
)
HEIGHT = 900


def looked_at(page: Page) -> list[str]:
    """Return what is wrong with the open page."""
    found: list[str] = []
    for name in set(page.locator("summary").all_inner_texts()):
        page.locator("summary").get_by_text(name, exact=True).first.click()
    for scheme, width in random.sample(LOOKS, scaled(len(LOOKS))):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": HEIGHT})
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            found.append(f"at {width} it is {wide} wide")
        rules = () if scheme == "light" else ("color-contrast",)
        found += [f"at {width}, {scheme}: {each}" for each in complaints(page, *rules)]
    page.emulate_media(color_scheme="light")
    return found
