"""The console of a server with access control, in a real browser."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest
from anyio.from_thread import BlockingPortal
from playwright.sync_api import Browser, Page, expect

from tests.api.console.browser.looks import looked_at
from tests.api.console.browser.other_server import serving
from tests.api.console.browser.window import Window
from tests.api.console.site import NS, PAGE, TOPIC, Site
from tests.api.doors import ROOT, Doors
from tms.core.services.transactions import StartRequest
from tms.core.values.caller import AUDIT, AUDIT_TOPIC, Caller
from tms.security.resources import Action

"""Within this time a page is closed to those whose token is revoked."""
READER = "reader"


@pytest.fixture(scope="module")
def doors(portal: BlockingPortal, guarded: Site) -> Doors:
    """The access control of the server; one topic may be read by somebody, and nothing else."""
    found = guarded.doors
    assert found is not None
    portal.call(guarded.create)
    portal.call(guarded.services.messaging.publish, TOPIC, [b"a"])
    portal.call(guarded.services.groups.create_group, TOPIC, "g")
    portal.call(_audited, guarded)
    portal.call(found.allow, READER, [Action.CONSUME], NS, TOPIC.name)
    portal.call(found.allow_subscriptions, "worker", NS, TOPIC.name, "g")
    return found


async def _audited(guarded: Site) -> None:
    """Give the audit its topic, and an entry."""
    messaging, caller = guarded.services.messaging, Caller(part=AUDIT)
    await messaging.create_topic(AUDIT_TOPIC, {}, caller=caller)
    entry = {"time_ms": 1_700_000_000_000, "principal": "mallory", "effect": "deny"}
    await messaging.publish(AUDIT_TOPIC, [json.dumps(entry).encode()], caller=caller)


def buttons(page: Page) -> set[str]:
    """Return the names of all buttons of forms that change something."""
    found = page.locator("form[method=post] button").all_text_contents()
    return set(found) - {"Sign out", "Show"}


def test_signing_in_leads_where_one_was_going_and_out_ends_it(
    chromium: Browser, portal: BlockingPortal, guarded: Site, doors: Doors
) -> None:
    with Window(chromium, guarded.url) as window:
        page = window.go(PAGE)
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        expect(page.get_by_label("Token")).to_be_focused()
        page.get_by_label("Token").fill("no such token")
        window.submit("Sign in")
        expect(page.get_by_role("alert")).to_be_visible()
        assert looked_at(page) == []

        page.get_by_label("Token").fill(portal.call(doors.token, ROOT))
        window.submit("Sign in")
        expect(page.get_by_role("heading", name="ns:t")).to_be_visible()
        [cookie] = window.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert page.evaluate("document.cookie") == ""

        window.submit("Sign out")
        page = window.go(PAGE)
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_buttons_are_there_for_those_alone_who_may(
    chromium: Browser, portal: BlockingPortal, guarded: Site, doors: Doors
) -> None:
    started = portal.call(guarded.services.transactions.start, StartRequest())
    of_all = {
        f"topics?namespace={NS}": {"Create"},
        PAGE: {"Change", "Trim", "Delete"},
        f"{PAGE}/messages": {"Publish"},
        "readers/ns/t/g": {"Pause", "Move"},
        f"transactions/{started.transaction_id}": {"Invalidate"},
        f"namespaces/{NS}": {"Change"},
        "cleanup": {"Run a pass now"},
    }
    of_reader = (f"topics?namespace={NS}", PAGE, f"{PAGE}/messages")
    with Window(chromium, guarded.url) as window:
        window.sign_in(portal.call(doors.token, ROOT))
        assert {path: buttons(window.go(path)) for path in of_all} == of_all
        for path in ("access?principal=reader&action=consume&namespace=ns&topic=t", "audit", ""):
            assert looked_at(window.go(path)) == [], path
    with Window(chromium, guarded.url) as window:
        window.sign_in(portal.call(doors.token, READER))
        for path in of_reader:
            assert buttons(window.go(path)) == set(), path
        for path in set(of_all) - set(of_reader):
            answer = window.page.goto(path)
            assert answer is not None
            assert answer.status in {403, 404}, path
            window.has_refused(answer.status)
            assert buttons(window.page) == set(), path
    with Window(chromium, guarded.url) as window:
        window.sign_in(portal.call(doors.token, "worker"))
        assert buttons(window.go("readers/ns/t/g")) == of_all["readers/ns/t/g"]


def test_a_revoked_token_ends_an_open_page(
    chromium: Browser, portal: BlockingPortal, guarded: Site, doors: Doors
) -> None:
    portal.call(doors.allow, "leaver", [Action.CONSUME], NS, TOPIC.name)
    with Window(chromium, guarded.url) as window:
        window.sign_in(portal.call(doors.token, "leaver"))
        page = window.go(f"{PAGE}/messages")
        expect(page.get_by_role("row")).to_have_count(2)
        portal.call(doors.grants.remove_token, portal.call(doors.id_of, "leaver"))
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        window.has_refused(401)


@contextmanager
def another_site(page: str) -> Iterator[str]:
    """Serve a page on this machine under another host name, as a browser sees it; yield its URL."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

    with serving(Answer) as port:
        yield f"http://localhost:{port}/"


def test_another_sites_page_neither_frames_it_nor_acts_by_it(
    chromium: Browser, portal: BlockingPortal, guarded: Site, doors: Doors
) -> None:
    console = f"{guarded.url}/console"
    page_of_other = (
        f"<iframe src='{console}/sign-in'></iframe>"
        f"<form method=post action='{console}/{PAGE}/delete'>"
        f"<input name=typed value={TOPIC.name}><button>Win</button></form>"
    )
    with another_site(page_of_other) as url, Window(chromium, guarded.url) as window:
        window.sign_in(portal.call(doors.token, ROOT))
        page = window.page
        page.goto(url)
        window.until(lambda: page.frames[1].url.startswith("chrome-error:"))
        window.until(lambda: any("frame-ancestors 'none'" in each for each in window.faults))
        with page.expect_navigation() as led:
            page.get_by_role("button", name="Win").click()
        assert led.value is not None
        assert led.value.status == 403
        assert "cookie" not in led.value.request.all_headers()
        expect(page.get_by_text("A page of another site sent this")).to_be_visible()
        assert TOPIC.name in portal.call(guarded.services.messaging.topics, NS)
        window.faults.clear()
