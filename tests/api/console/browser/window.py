"""A window of a real Chromium on the console, which records whatever must not happen in it."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, expect

from tests.waiting import WAIT_S_MAX

WAIT_MS_MAX = int(1000 * WAIT_S_MAX)
LOOK_AGAIN_MS = 20
expect.set_options(timeout=WAIT_MS_MAX)  # it would give up after 5 s


class Window:
    """One page, with cookies of its own; a context manager that fails if it has had a fault.

    A fault is an error on the browser's console (including violations of the content security
    policy), an error of a script, a dialog, or a request to another server.
    """

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        """Open no page yet. `url` is the server's; `options` are those of Playwright's contexts."""
        self.url = url
        self.context = browser.new_context(base_url=f"{url}/console/", **options)
        self.context.set_default_timeout(WAIT_MS_MAX)
        self.page: Page = self.context.new_page()
        self.faults: list[str] = []
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        self.page.on("dialog", self._on_dialog)
        self.context.on("request", self._on_request)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"{self.page.url} console: {message.text}")

    def _on_dialog(self, dialog: Dialog) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((f"{self.url}/", "data:")):
            self.faults.append(f"request to {request.url}")

    def go(self, path: str) -> Page:
        """Open a page below the console, which must exist."""
        answer = self.page.goto(path)
        assert answer is not None
        assert answer.status == 200, (path, answer.status)
        return self.page

    def unfold(self, summary: str) -> None:
        """Unfold the part of the page with this summary."""
        self.page.locator("summary").get_by_text(summary, exact=True).first.click()

    def has_refused(self, status: int) -> None:
        """Accept one message of the browser about an answer that was a refusal."""
        words = f"a status of {status} "
        self.until(lambda: any(words in each for each in self.faults))
        [told] = [each for each in self.faults if words in each]
        self.faults.remove(told)

    def submit(self, button: str) -> str:
        """Press a button of a form, and return the notice on the next page."""
        page = self.page
        with page.expect_navigation():
            page.get_by_role("button", name=button, exact=True).click()
        told = page.locator(".told")
        return told.first.inner_text() if told.count() else ""

    def until(self, happened: Callable[[], bool]) -> None:
        """Wait until the browser has reported something; it reports frames and faults late."""
        for _ in range(WAIT_MS_MAX // LOOK_AGAIN_MS):
            if happened():
                return
            self.page.wait_for_timeout(LOOK_AGAIN_MS)
        raise AssertionError("time was up", self.page.url, self.faults)

    def sign_in(self, token: str) -> None:
        """Sign in; later requests are this principal's."""
        self.go("sign-in").get_by_label("Token").fill(token)
        self.submit("Sign in")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.context.close()
        if error is None:
            assert self.faults == []
