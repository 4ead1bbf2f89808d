"""All pages: visitors who may see them do, links work, and no script is foreign."""

import html
import re
from collections.abc import Iterator
from urllib.parse import urljoin, urlsplit

import pytest

from api.console.application import ROWS
from tests.api.console.records import FIRST, SECOND
from tests.api.console.site import NS, PAGE, TOPIC, Browser, Site
from tests.api.doors import ROOT
from tests.docs.markdown import ROOT as PROJECT
from tms.core.values.namespaces import NamespaceSettings

pytestmark = pytest.mark.anyio

BEGINNINGS = ("", "topics?namespace=ns", "cluster", "namespaces", "cleanup", "access", "schemas")
BYTES_MAX = 200 * 1024
_LINK = re.compile(r'(href|src|action)="([^"]*)"')
_KNOWN = {row.path.split("/")[1] for row in ROWS if row.path} | {"schemas", "assets"}


async def fill(opened: Site) -> None:
    """Put something on each page."""
    services = opened.services
    await opened.create()
    ids = await services.messaging.publish(TOPIC, [b'{"a": 1}', b"text", b"\xff"])
    await services.subscriptions.create_subscription(TOPIC, "reader", ids[0])
    await services.namespaces.declare(NS, NamespaceSettings(ttl_s_max=10**6))
    for text in (FIRST, SECOND):
        await services.schemas.register("ns:t-value", text)


def links_of(url: str, page: str) -> Iterator[str]:
    """Yield the paths below the console that a page links to."""
    for kind, found in _LINK.findall(page):
        link = html.unescape(found)
        if link.startswith("data:"):
            continue
        assert not link.startswith(("/", "http", "//")), (url, link)
        path, _, query = urljoin(url, link).partition("?")
        place = urlsplit(path).path.removeprefix("/console").removeprefix("/")
        if kind != "action" and (not place or place.split("/")[0] in _KNOWN):
            yield place + (f"?{query}" if query else "")


async def walk(browser: Browser) -> dict[str, str]:
    """Follow all links; return the pages by their places."""
    seen: dict[str, str] = {}
    left = list(BEGINNINGS)
    while left:
        place = left.pop()
        if place in seen:
            continue
        answer = await browser.ask(place)
        assert answer.status_code == 200, place
        is_page = answer.headers["content-type"].startswith("text/html")
        seen[place] = answer.text if is_page else ""
        if is_page:
            assert len(answer.content) <= BYTES_MAX, place
            left += links_of(str(answer.url), answer.text)
    return seen


@pytest.mark.parametrize("prefix", ["", "guarded"])
async def test_all_links_lead_to_pages_in_which_nothing_runs(
    open_site: Site, guarded_site: Site, prefix: str
) -> None:
    opened = guarded_site if prefix else open_site
    await fill(opened)
    browser = await opened.as_somebody(ROOT) if prefix else opened.browser
    pages = await walk(browser)
    reached = {place.partition("?")[0] for place in pages}
    assert {PAGE, f"{PAGE}/messages", "schemas/ns%3At-value", f"namespaces/{NS}"} <= reached
    for place, page in pages.items():
        assert not re.search(r"<script(?! src=)|\sstyle=|\son\w+=|javascript:", page), place
        assert page.count("<h1") == (1 if page else 0), place
        assert page.count("<main") == (1 if page else 0), place
        for field in re.findall(r"<(?:input|select|textarea)[^>]*>", page):
            assert 'type="hidden"' in field or _has_label(page, field), (place, field)
    for place in ("audit", "sign-in"):
        answer = await browser.ask(place)
        assert answer.status_code == 200, place


def _has_label(page: str, field: str) -> bool:
    before = page[: page.index(field)]
    return before.rfind("<label") > before.rfind("</label")


async def test_who_is_not_signed_in_sees_no_page(guarded_site: Site) -> None:
    await fill(guarded_site)
    message = (await guarded_site.services.messaging.publish(TOPIC, [b"x"]))[0].hex()
    names = {"namespace": NS, "topic": "t", "id": message, "subject": "s"}
    for row in ROWS:
        if row.is_form or row.action is None:
            continue
        place = row.path.removeprefix("/")
        for name, value in names.items():
            place = place.replace(f"{{{name}}}", value)
        if "{" in place:
            continue
        answer = await guarded_site.browser.ask(place)
        assert answer.url.path == "/console/sign-in", row.path


async def test_parts_of_pages_ask_again_for_themselves_alone(open_site: Site) -> None:
    await fill(open_site)
    for place in (PAGE, f"{PAGE}/messages", "cleanup"):
        page = await open_site.browser.get(place)
        [(part, wanted)] = re.findall(r'id="([a-z]+)" hx-get="" [^>]*hx-select="#([a-z]+)"', page)
        assert part == wanted
        assert page.count(f'id="{part}"') == 1


def test_no_paragraph_has_what_ends_it() -> None:
    """A browser closes a <p> before a form or a list, which then loses the style of the <p>."""
    blocks = re.compile(
        r"<p\b(?:(?!</p>).)*?<(?:form|div|dl|h\d|ol|p|pre|section|table|ul)\b", re.DOTALL
    )
    templates = sorted((PROJECT / "api/console/templates").glob("*.html"))
    found = [path.name for path in templates if blocks.search(path.read_text(encoding="utf-8"))]

    assert templates
    assert found == []


def test_a_keyboard_scrolls_each_region_that_may_be_too_wide() -> None:
    for path in (PROJECT / "api/console/templates").glob("*.html"):
        regions = re.findall('<div class="wide"[^>]*>', path.read_text(encoding="utf-8"))
        assert all('tabindex="0"' in region for region in regions), path
