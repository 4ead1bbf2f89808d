"""Schemas in the console: subjects, versions, differences, and checking a text."""

import html
import json
import re

import pytest

from tests.api.console.records import FIELD, FIRST, SECOND, avro
from tests.api.console.site import PAGE, TOPIC, Site, site
from tests.api.security.secured import rule_of
from tms.core.services.schemas import SchemaReference
from tms.security.resources import Action

pytestmark = pytest.mark.anyio

UNFIT = avro(FIELD, {"name": "c", "type": "int"})


async def test_versions_and_their_differences_are_shown(open_site: Site) -> None:
    schemas, browser = open_site.services.schemas, open_site.browser
    assert "There are none" in await browser.get("schemas")
    await schemas.register("orders-value", FIRST)
    await schemas.register("orders-value", SECOND)
    assert 'href="../console/schemas/orders-value"' in await browser.get("schemas")
    assert "There are none" in await browser.get("schemas", search="x")
    page = await browser.get("schemas/orders-value")
    assert "Differences from version 1" in page
    assert '<span class="good">+      &#34;name&#34;: &#34;b&#34;,</span>' in page
    page = await browser.get("schemas/orders-value", version="1")
    assert "Differences" not in page
    assert "&#34;b&#34;" not in page
    for bad in ("0", "x", "9", "9" * 100):
        answer = await browser.ask("schemas/orders-value", version=bad)
        assert answer.status_code in {400, 404}
    assert (await browser.ask("schemas/none")).status_code == 404
    assert (await browser.ask("schemas/:.:orders-value")).status_code == 404


async def test_a_pasted_text_is_checked_in_words(open_site: Site) -> None:
    schemas, browser = open_site.services.schemas, open_site.browser
    await schemas.register("s", FIRST)
    answer = await browser.post("schemas/s/check", {"kind": "AVRO", "text": SECOND})
    assert "The schema is compatible (BACKWARD)" in answer.text
    answer = await browser.post("schemas/s/check", {"kind": "AVRO", "text": UNFIT})
    assert "The schema is not compatible" in answer.text
    assert "The field c at path" in answer.text
    assert "Compared with version 1." in answer.text
    assert "errorType" not in answer.text
    answer = await browser.post("schemas/s/check", {"kind": "AVRO", "text": "<script>"})
    assert "The schema is not compatible" in answer.text
    assert "<script>" not in answer.text.replace("<script src=", "")
    assert (await browser.post("schemas/s/check", {"kind": "XML", "text": ""})).status_code == 400
    assert await schemas.versions("s") == [1]


async def test_a_server_without_a_registry_says_so(anyio_backend: object) -> None:
    async with site(has_registry=False) as opened:
        assert "This server has no schema registry" in await opened.browser.get("schemas")
        assert (await opened.browser.ask("schemas/s")).status_code == 404


async def test_only_readable_subjects_are_shown(guarded_site: Site) -> None:
    schemas, doors = guarded_site.services.schemas, guarded_site.doors
    assert doors is not None
    await schemas.register("hidden", avro(FIELD, name="Hidden"))
    await schemas.register("mine", FIRST)
    reference = SchemaReference("Hidden", "hidden", 1)
    text = avro({"name": "h", "type": "Hidden"}, name="Whole")
    await schemas.register("referring", text, references=[reference])
    for name in ("mine", "referring"):
        await doors.grants.add_rule(rule_of("reader", Action.READ, name=name))
    browser = await guarded_site.as_somebody("reader")
    page = await browser.get("schemas")
    assert "mine" in page
    assert "hidden" not in page
    assert (await browser.ask("schemas/hidden")).status_code == 403
    assert (await browser.ask("schemas/:.:hidden")).status_code == 404
    fields = {"kind": "AVRO", "text": UNFIT}
    assert (await browser.post("schemas/hidden/check", fields)).status_code == 403
    told = await browser.post("schemas/mine/check", fields)
    assert "The field c at path" in told.text
    told = await browser.post("schemas/referring/check", fields)
    assert "You may not read everything" in told.text


async def test_hostile_names_and_texts_of_schemas_are_shown_harmlessly(open_site: Site) -> None:
    schemas, browser = open_site.services.schemas, open_site.browser
    name = "<img src=x>\u202e'\"/&?#"
    text = avro(
        {"name": "a", "type": "int", "doc": "</pre><script>alert(1)</script>\x1b[31m\u2066"}
    )
    await schemas.register(name, text)
    await schemas.register(name, text.replace("alert(1)", "alert(2)"))
    page = await browser.get("schemas")
    assert "&lt;img src=x&gt;\\u202e" in page
    [link] = re.findall(r'href="\.\./console/(schemas/[^"]+)"', page)
    shown = await browser.get(html.unescape(link))
    checked = await browser.post(html.unescape(link) + "/check", {"kind": "AVRO", "text": "\u202e"})
    for each in (page, shown, checked.text):
        for harm in ("<img", "<script>alert", "\x1b", "\u2066"):
            assert harm not in each
    assert "\u202e" not in page + shown


async def test_values_are_published_and_shown_by_their_schema(open_site: Site) -> None:
    await open_site.create()
    browser = open_site.browser
    await open_site.services.schemas.register("ns:t-value", FIRST)
    await browser.get(f"{PAGE}/messages")
    answer = await browser.post(f"{PAGE}/publish", {"kind": "value", "payload": '{"a": 7}'})
    assert "Published with the id" in answer.text
    page = await browser.get(f"{PAGE}/messages", form="schema")
    assert "<code>{&#34;a&#34;:7}</code>" in page
    answer = await browser.post(f"{PAGE}/publish", {"kind": "value", "payload": '{"a": "x"}'})
    assert answer.status_code == 422
    await open_site.services.messaging.publish(TOPIC, [b"no schema"])
    page = await browser.get(f"{PAGE}/messages", form="schema")
    assert "<code>{&#34;a&#34;:7}</code>" in page
    assert "<code>(" in page


@pytest.mark.parametrize(("repeated", "compared"), [(20, "True"), (480, "False")])
async def test_texts_of_many_equal_lines_are_not_compared(
    open_site: Site, repeated: int, compared: str
) -> None:
    """The work of a comparison grows with the product of three numbers of lines."""
    schemas, browser = open_site.services.schemas, open_site.browser
    alternating = [word for number in range(90) for word in ("k", f"b{number}")]
    for examples in (["k"] * repeated, alternating):
        await schemas.register("s", json.dumps({"examples": examples}), "JSON")
    page = await browser.get("schemas/s")
    assert str("to be compared here" not in page) == compared
    assert str('<span class="good">+' in page) == compared


async def test_the_largest_schemas_make_no_large_page(open_site: Site) -> None:
    schemas, browser = open_site.services.schemas, open_site.browser
    doc = '"' * 100_000
    for version in range(2):
        fields = [
            {"name": f"f{each}", "type": "int", "doc": f"{version}<>'{doc[each::50]}"}
            for each in range(50)
        ]
        await schemas.register("large", avro(*fields))
    text = avro({"name": "<" * 5, "type": "int", "doc": doc[:14_000]})
    pages = [
        await browser.ask("schemas/large"),
        await browser.post("schemas/large/check", {"kind": "AVRO", "text": text}),
    ]
    for page in pages:
        assert page.status_code == 200
        assert len(page.content) <= 200 * 1024
