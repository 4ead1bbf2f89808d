"""A browser that shows hostile texts shows them completely, and they do nothing."""

import json
from urllib.parse import quote

import pytest
from anyio.from_thread import BlockingPortal
from playwright.sync_api import Browser, expect

from tests.api.console.browser.window import Window
from tests.api.console.site import PAGE, TOPIC, Site
from tms.core.services.transactions import StartRequest
from tms.core.values.caller import Caller
from tms.core.values.frame import bodies_of, encode_body
from tms.core.values.groups import Take

TURNED = "\u202e\u2066"
HARM = (
    f"'\"-->{TURNED}gnp.exe"
    "</code></pre></td></script><script>document.title = 'harmed'; alert(1)</script>"
    "<img src=x onerror=alert(2)><svg onload=alert(3)><iframe srcdoc='<script>alert(4)</script>'>"
    "<form action=//elsewhere.example><button autofocus onfocus=alert(5)>"
    "<a href=javascript:alert(6)>x</a><style>body { display: none }</style>"
    "<div hx-get='//elsewhere.example' hx-trigger='load' hx-on:htmx:load='alert(7)'>"
    "<!-- {{ 7 * 7 }} \x1b[31m"
)
_LARGE_BYTES = 9_000_000
SUBJECT = f"harm {HARM[:200]}"


@pytest.fixture(scope="module")
def paths(portal: BlockingPortal, open_server: Site) -> list[str]:
    """The pages of a server to which others have sent harmful texts wherever they could."""
    return portal.call(_harmed, open_server)


async def _harmed(site: Site) -> list[str]:
    services, caller = site.services, Caller(HARM)
    await site.create(colour=HARM)
    texts = (HARM, json.dumps({HARM: [HARM]}), f"{TURNED}\xff")
    bodies = [
        *(encode_body(each.encode(), HARM.encode(), {HARM: HARM.encode()}) for each in texts),
        encode_body(b"\xff\xfe" + HARM.encode(), None, {}),
        encode_body(HARM.encode() * (_LARGE_BYTES // len(HARM.encode())), None, {}),
    ]
    ids = await services.messaging.publish(TOPIC, bodies_of(bodies))
    await services.groups.create_group(TOPIC, "g")
    await services.groups.take(TOPIC, "g", Take("member", 2), caller=caller)
    asked = StartRequest(client=HARM[:100], owner=HARM[:100], sequence=1)
    started = await services.transactions.start(asked, caller=caller)
    await services.messaging.publish(TOPIC, [HARM.encode()], started.write_pointer)
    for default in (1, 2):
        field = {"name": "f", "type": "int", "doc": HARM, "default": default}
        text = json.dumps({"type": "record", "name": "R", "fields": [field]})
        await services.schemas.register(SUBJECT, text)
    return [
        *(f"{PAGE}?told={quote(HARM)}", f"topics?namespace=ns&search={quote(HARM)}"),
        *(f"{PAGE}/messages?form={form}" for form in ("text", "json", "hex", "schema")),
        *(f"{PAGE}/messages/{each.hex()}" for each in ids),
        *("", "transactions", f"transactions/{started.transaction_id}", "readers/ns/t/g"),
        *("schemas", f"schemas/{quote(SUBJECT, safe='')}", f"readers?search={quote(HARM)}"),
        f"sign-in?back={quote('javascript:alert(8)')}",
    ]


def test_what_others_sent_does_nothing(
    chromium: Browser, open_server: Site, paths: list[str]
) -> None:
    with Window(chromium, open_server.url) as window:
        for path in paths:
            page = window.go(path)
            expect(page.locator("main h1")).to_be_visible()
            assert page.title() != "harmed", path
            assert page.locator("main :is(img, iframe, style, [hx-on\\:htmx\\:load])").count() == 0
            shown = page.locator("body").inner_text()
            assert not {"\u202e", "\u2066", "\x1b"} & set(shown), path
            assert "49 \\u001b" not in shown
        page = window.go(f"{PAGE}/messages?form=text")
        expect(page.get_by_text("<script>document.title").first).to_be_visible()
        expect(page.get_by_text("\\u202e\\u2066gnp.exe").first).to_be_visible()


def test_a_saved_payload_is_a_file_of_no_type(
    chromium: Browser, open_server: Site, paths: list[str]
) -> None:
    with Window(chromium, open_server.url) as window:
        page = window.go(next(each for each in paths if "/messages/" in each))
        with page.expect_download() as saved:
            page.get_by_role("link", name="Save the payload").click()
        assert saved.value.path().read_bytes() == HARM.encode()
        assert not saved.value.suggested_filename.endswith((".html", ".svg", ".js"))
