"""The documentation page shows all operations, and is served as HTML."""

from html.parser import HTMLParser

import pytest

from api.app import OPERATIONS
from api.http.prose import html_of
from api.resources.documentation import page
from tests.api.rest import Rest, refusal

pytestmark = pytest.mark.anyio


class Seen(HTMLParser):
    """The content of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str | None] = set()
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.ids |= {value for name, value in attrs if name == "id"}


async def test_all_operations_are_shown_without_a_script(rest: Rest) -> None:
    answer = await rest.http.get("/docs")

    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    seen = Seen(answer.text)
    assert seen.ids == {operation.name for operation in OPERATIONS}
    assert "script" not in seen.tags


async def test_code_in_backticks_is_shown_as_code(rest: Rest) -> None:
    shown = (await rest.http.get("/docs")).text

    assert "`" in (await rest.http.get("/openapi.json")).text
    assert "`" not in shown
    assert html_of("a < b, `x<y>`") == "a &lt; b, <code>x&lt;y&gt;</code>"


def test_what_the_document_says_is_shown_as_text() -> None:
    document = {
        "info": {"title": "<b>", "version": "1", "description": "a & b"},
        "tags": [],
        "paths": {},
        "components": {"responses": {"Error400": {"description": "<b>"}}},
    }

    assert "<b>" not in page(document)


async def test_a_link_of_another_site_leads_to_it_but_its_scripts_get_nothing(rest: Rest) -> None:
    foreign = {"sec-fetch-site": "cross-site"}
    opened = await rest.http.get("/docs", headers={**foreign, "sec-fetch-mode": "navigate"})
    fetched = await rest.http.get("/docs", headers={**foreign, "sec-fetch-mode": "cors"})

    assert opened.status_code == 200
    assert refusal(fetched) == (403, "cross_site")
    assert (await rest.http.head("/docs")).status_code == 200
    assert refusal(await rest.http.post("/docs")) == (405, "method_not_allowed")
