"""How an open page looks: narrow and wide, light and dark, with one of each thing unfolded."""

from playwright.sync_api import Page

from tests.api.console.browser.axe import complaints

WIDTHS = (1400, 360)
HEIGHT = 900


def looked_at(page: Page) -> list[str]:
    """Return what is wrong with the page that is open."""
    found: list[str] = []
    for name in set(page.locator("summary").all_inner_texts()):
        page.locator("summary").get_by_text(name, exact=True).first.click()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": HEIGHT})
            wide = page.evaluate("document.documentElement.scrollWidth")
            if wide > width:
                found.append(f"at {width} it is {wide} wide")
            rules = () if scheme == "light" else ("color-contrast",)
            found += [f"at {width}, {scheme}: {each}" for each in complaints(page, *rules)]
    page.emulate_media(color_scheme="light")
    return found
