"""Each page in a real browser, narrow and wide, light and dark: no fault, and nothing bars anyone."""

from playwright.sync_api import Browser, Page

from tests.api.console.browser.axe import complaints
from tests.api.console.browser.shop import Shop
from tests.api.console.browser.window import Window

WIDTHS = (1400, 360)
HEIGHT = 900


def test_each_page_at_each_width_in_light_and_dark(chromium: Browser, shop: Shop) -> None:
    found: list[str] = []
    with Window(chromium, shop.site.url) as window:
        for path in shop.pages:
            page = window.go(path)
            found += [f"/{path} {each}" for each in _looked_at(page)]
    assert not found, "\n".join(found)


def _looked_at(page: Page) -> list[str]:
    """Return what is wrong with the page that is open."""
    found: list[str] = []
    for each in page.locator("summary").all():
        each.click()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": HEIGHT})
            wide = page.evaluate("document.documentElement.scrollWidth")
            if wide > width:
                found.append(f"at {width} it is {wide} wide")
            found += [f"at {width}, {scheme}: {each}" for each in complaints(page)]
    page.emulate_media(color_scheme="light")
    return found
