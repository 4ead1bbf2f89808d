"""A Chromium and servers for it: the servers work in a thread, so that tests can wait for both."""

import shutil
from collections.abc import Iterator

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from playwright.sync_api import Browser, sync_playwright

from tests.api.console.browser.shop import OPENED_MS, Servers, Shop, opened
from tests.api.console.browser.window import Window
from tests.api.console.site import Site, site
from tests.api.doors import Doors
from tests.manual_clock import ManualClock
from tms.core.limits import Limits

PROGRAM = "chromium-headless-shell"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Debian's headless Chromium, which takes half the processor time."""
    program = shutil.which(PROGRAM)
    if program is None:
        pytest.skip("the console's pages need a browser: apt-get install chromium-headless-shell")
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=program) as browser,
    ):
        yield browser


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    """Where the servers work."""
    with start_blocking_portal("asyncio", {"use_uvloop": True}) as opened_portal:
        yield opened_portal


@pytest.fixture(scope="module")
def shop(portal: BlockingPortal) -> Iterator[Shop]:
    """A shop's server without access control, whose clock pauses."""
    clock = ManualClock(OPENED_MS)
    served = site(clock=clock, cluster=Servers())
    with portal.wrap_async_context_manager(served) as of_shop:
        yield portal.call(opened, of_shop, clock)


@pytest.fixture(scope="module")
def open_server(portal: BlockingPortal) -> Iterator[Site]:
    """A server without access control, and without topics."""
    limits = Limits(cleanup_period_s=3600)  # so that only a test runs a pass
    with portal.wrap_async_context_manager(site(limits=limits)) as served:
        yield served


@pytest.fixture(scope="module")
def guarded(portal: BlockingPortal) -> Iterator[Site]:
    """A server with access control, at which nobody is signed in."""
    doors = Doors()
    portal.call(doors.open)
    with portal.wrap_async_context_manager(site(doors)) as served:
        yield served


@pytest.fixture
def window(chromium: Browser, open_server: Site) -> Iterator[Window]:
    """A window on the server without access control."""
    with Window(chromium, open_server.url) as opened_window:
        yield opened_window
