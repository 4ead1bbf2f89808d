"""A Chromium and servers for it: the servers work in a thread, so that tests can wait for both."""

import shutil
from collections.abc import Iterator

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from playwright.sync_api import Browser, sync_playwright

from tests.api.cluster.standing_by import Known
from tests.api.console.browser.shop import OPENED_MS, Shop, opened
from tests.api.console.site import Site, site
from tests.api.doors import Doors
from tests.manual_clock import ManualClock

PROGRAM = "chromium"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium."""
    program = shutil.which(PROGRAM)
    if program is None:
        pytest.skip("the console's pages need a browser: apt-get install chromium")
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
    """A shop's server without access control, whose clock stands still."""
    clock = ManualClock(OPENED_MS)
    with portal.wrap_async_context_manager(site(clock=clock, cluster=Known())) as served:
        yield portal.call(opened, served, clock)


@pytest.fixture(scope="module")
def guarded(portal: BlockingPortal) -> Iterator[Site]:
    """A server with access control, at which nobody is signed in."""
    doors = Doors()
    portal.call(doors.open)
    with portal.wrap_async_context_manager(site(doors)) as served:
        yield served
