"""Changes of a metadata store are followed through all failures, for as long as needed."""

import asyncio
import logging

import pytest

from tests.virtual_loop import VIRTUAL
from tests.waiting import WAIT_S_MAX, passes, until
from tms.core.errors import MetadataUnavailable
from tms.metadata import following
from tms.metadata.following import Following
from tms.metadata.host import MetadataHost

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> object:
    return VIRTUAL


class Followed:
    """Work that fails until the test lets it succeed."""

    def __init__(self) -> None:
        self.host = MetadataHost()
        self.store, self.other = self.host.open_session(), self.host.open_session()
        self.fails = False
        self.times = 0
        self.called = asyncio.Event()
        self.following = Following(self.store, "/a", "following /a", self.bring_up_to_date)

    async def bring_up_to_date(self) -> None:
        self.times += 1
        self.called.set()
        if self.fails:
            raise MetadataUnavailable

    async def until_called(self) -> None:
        await asyncio.wait_for(self.called.wait(), WAIT_S_MAX)
        self.called.clear()


async def test_it_is_called_for_what_is_reported_and_as_a_connection_comes_back() -> None:
    followed = Followed()
    await followed.following.open()
    followed.called.clear()
    for path in ("/a", "/a/b"):
        await followed.other.put(path, b"")
        await followed.until_called()
    await followed.other.put("/b", b"")
    followed.host.disconnect(followed.store)
    await followed.other.put("/a", b"missed")
    await passes(0.01)
    assert followed.times == 3
    followed.host.reconnect(followed.store)
    await followed.until_called()
    await followed.following.close()
    await followed.other.put("/a", b"")
    await passes(0.01)
    assert followed.times == 4


async def test_what_failed_is_done_again_and_reported_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(following, "RETRY_S", 0.001)
    followed = Followed()
    await followed.following.open()
    followed.fails = True
    with caplog.at_level(logging.WARNING):
        followed.following.wake()
        await until(lambda: followed.times >= 5)
    assert len(caplog.records) == 1
    followed.fails = False
    followed.called.clear()
    await followed.until_called()
    times = followed.times
    await passes(0.02)
    assert followed.times == times
    await followed.following.close()


async def test_it_ends_even_if_something_happens_at_that_moment() -> None:
    followed = Followed()
    followed.following.start()
    followed.fails = True
    followed.following.wake()
    await followed.until_called()
    task = followed.following._task
    assert task is not None
    await passes(0.01)  # it waits before it retries
    followed.following.wake()
    asyncio.get_running_loop().call_soon(task.cancel)
    await asyncio.wait([task], timeout=WAIT_S_MAX)
    assert task.cancelled()
    await followed.following.close()
