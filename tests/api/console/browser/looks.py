"""How an open page looks: narrow and wide, light and dark, with all of it unfolded."""

from playwright.sync_api import Page

from tests.api.console.browser.axe import complaints

WIDTHS = (1400, 360)
HEIGHT = 900


def looked_at(page: Page) -> list[str]:
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
