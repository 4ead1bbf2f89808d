"""The console behind a reverse proxy that puts it below a path of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from anyio.from_thread import BlockingPortal
from playwright.sync_api import Browser, expect

from tests.api.console.browser.other_server import serving
from tests.api.console.browser.window import Window
from tests.api.console.site import PAGE, TOPIC, Site
from tests.api.doors import ROOT, Doors

PREFIX = "/tools/tms"
OF_CONNECTION = {"connection", "transfer-encoding", "date", "server"}


@contextmanager
def behind_proxy(url: str) -> Iterator[str]:
    """Serve a server below a prefix, which the proxy strips; yield its URL."""

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path.startswith(f"{PREFIX}/"), self.path
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            connection = HTTPConnection(urlsplit(url).netloc)
            path = self.path.removeprefix(PREFIX)
            connection.request(self.command, path, body, dict(self.headers))
            answer = connection.getresponse()
            content = answer.read()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in OF_CONNECTION:
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
            connection.close()

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with serving(Proxy) as port:
        yield f"http://127.0.0.1:{port}{PREFIX}"


def test_all_of_it_works_below_a_prefix(
    chromium: Browser, portal: BlockingPortal, guarded: Site
) -> None:
    doors = guarded.doors
    assert isinstance(doors, Doors)
    if TOPIC.name not in portal.call(guarded.services.messaging.topics, TOPIC.namespace):
        portal.call(guarded.create)
    with behind_proxy(guarded.url) as url, Window(chromium, url) as window:
        window.sign_in(portal.call(doors.token, ROOT))
        page = window.page
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        [cookie] = window.context.cookies()
        assert cookie["path"] == f"{PREFIX}/console"
        for path in ("", PAGE, "cluster", "cleanup"):
            for link in window.go(path).locator("a[href]").all():
                address = link.evaluate("each => each.href")
                assert address.startswith(f"{url}/"), (path, address)
        window.go(f"{PAGE}/messages")
        window.unfold("Publish a message")
        page.get_by_label("Payload").fill("through a proxy")
        assert window.submit("Publish")
        expect(page.get_by_role("row").filter(has_text="through a proxy")).to_be_visible()
        with page.expect_response(lambda answer: "hx-request" in answer.request.headers) as live:
            pass
        assert live.value.status == 200
        window.submit("Sign out")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
