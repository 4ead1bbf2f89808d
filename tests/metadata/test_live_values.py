"""Values cached in memory equal those of the store, soon after each change."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection

import pytest

from tests.manual_clock import ManualClock
from tests.metadata.servers import Open, expire
from tests.virtual_loop import VIRTUAL
from tests.waiting import in_time, until
from tms.core.errors import MetadataClosed, MetadataUnavailable, OutcomeUnknown
from tms.metadata import following
from tms.metadata.cache import JsonCodec
from tms.metadata.interface import MetadataStore, Value
from tms.metadata.live_values import _READS_AT_ONCE, LiveValues
from tms.metadata.local import LocalSession
from tms.metadata.memory import open_memory

pytestmark = pytest.mark.anyio

ROOT = "/live"


@pytest.fixture
def anyio_backend() -> object:
    return VIRTUAL


class Followed:
    """Values, and the notifications about their changes."""

    def __init__(self, store: MetadataStore, clock: ManualClock) -> None:
        self.store = store
        self.told: list[set[str]] = []
        self.clock = clock
        self.live = LiveValues(store, ROOT, JsonCodec(int), self._hear, self.clock)

    def _hear(self, names: Collection[str]) -> None:
        self.told.append(set(names))

    async def until(self, **values: int) -> None:
        await until(lambda: self.live.values == values)


Follow = Callable[[MetadataStore], Awaitable[Followed]]


@pytest.fixture
def clock() -> ManualClock:
    """The clock that the store in memory and its followers share; two clocks may differ by 1 ms."""
    return ManualClock(0)


@pytest.fixture
async def follow(clock: ManualClock) -> AsyncIterator[Follow]:
    opened: list[Followed] = []

    async def follow_in(store: MetadataStore) -> Followed:
        followed = Followed(store, clock)
        opened.append(followed)
        await followed.live.open()
        return followed

    yield follow_in
    for each in opened:
        await each.live.close()


@pytest.fixture
async def sessions(clock: ManualClock) -> AsyncIterator[tuple[LocalSession, LocalSession]]:
    """Two sessions with one store in memory."""
    first, second = open_memory("live", clock), open_memory("live")
    yield first, second
    await first.close()
    await second.close()


async def test_a_change_is_there_when_it_is_made_and_soon_elsewhere(
    follow: Follow, sessions: tuple[LocalSession, LocalSession]
) -> None:
    here, elsewhere = [await follow(each) for each in sessions]
    await here.live.put("a", 1)
    assert here.live.values == {"a": 1}
    await elsewhere.until(a=1)
    await elsewhere.live.put("b", 2)
    await elsewhere.live.put("a", 3)
    await here.until(a=3, b=2)
    await here.live.delete("a")
    assert here.live.values == {"b": 2}
    await elsewhere.until(b=2)
    assert set().union(*here.told) == set().union(*elsewhere.told) == {"a", "b"}

    later = await follow(sessions[0])
    assert later.live.values == {"b": 2}
    assert later.told == [{"b"}]


async def test_what_does_not_change_is_not_reported_and_stays_the_same(
    follow: Follow, sessions: tuple[LocalSession, LocalSession]
) -> None:
    here = await follow(sessions[0])
    await here.live.put("a", 10**6)
    kept, told = here.live.values["a"], len(here.told)
    await here.live.put("a", 10**6)
    await sessions[1].put("/live/b/below", b"1")
    await sessions[1].put("/live/b", b"2")
    await here.until(a=10**6, b=2)
    assert here.live.values["a"] is kept
    assert here.told[told:] == [{"b"}]


async def test_what_cannot_be_read_leaves_what_was_before(
    follow: Follow,
    sessions: tuple[LocalSession, LocalSession],
    caplog: pytest.LogCaptureFixture,
) -> None:
    here = await follow(sessions[0])
    await here.live.put("a", 1)
    with caplog.at_level(logging.ERROR):
        await sessions[1].put("/live/a", b"nonsense")
        await sessions[1].put("/live/new", b"[]")
        await sessions[1].put("/live/last", b"3")
        await here.until(a=1, last=3)
    assert "/live/a keeps its last valid value" in caplog.text
    await sessions[1].put("/live/a", b"2")
    await here.until(a=2, last=3)
    await sessions[1].put("/live/a", b"")
    await sessions[1].delete("/live/a")
    await here.until(last=3)


async def test_what_changed_while_a_connection_was_lost_is_seen_as_it_comes_back(
    follow: Follow, sessions: tuple[LocalSession, LocalSession]
) -> None:
    here, elsewhere = [await follow(each) for each in sessions]
    await here.live.put("a", 1)
    await here.live.put("gone", 1)
    host = sessions[0]._host
    host.disconnect(sessions[0])  # type: ignore[attr-defined]
    here.clock.advance(7)
    assert here.live.lost_at_ms == 0
    with pytest.raises(MetadataUnavailable):
        await here.live.put("a", 5)
    await elsewhere.live.put("a", 2)
    await elsewhere.live.delete("gone")
    await elsewhere.live.put("b", 3)
    assert here.live.values == {"a": 1, "gone": 1}
    host.reconnect(sessions[0])  # type: ignore[attr-defined]
    await here.until(a=2, b=3)
    await until(lambda: here.live.lost_at_ms is None)


async def test_what_was_read_before_a_failure_is_reported(
    follow: Follow, sessions: tuple[LocalSession, LocalSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeated read finds it unchanged, so it would never be reported."""
    names = [f"{number:03}" for number in range(_READS_AT_ONCE + 1)]
    for name in names:
        await sessions[1].put(f"{ROOT}/{name}", b"1")
    here = await follow(sessions[0])
    here.told.clear()
    host, get = sessions[0]._host, sessions[0].get

    async def get_once(path: str) -> Value | None:
        if path.endswith(names[-1]):
            monkeypatch.undo()
            host.disconnect(sessions[0])  # type: ignore[attr-defined]
        return await get(path)

    monkeypatch.setattr(sessions[0], "get", get_once)
    host.disconnect(sessions[0])  # type: ignore[attr-defined]
    await sessions[1].delete(f"{ROOT}/{names[0]}")
    host.reconnect(sessions[0])  # type: ignore[attr-defined]
    await until(lambda: not sessions[0].is_connected)
    await until(lambda: here.told == [{names[0]}])
    host.reconnect(sessions[0])  # type: ignore[attr-defined]
    await until(lambda: here.live.lost_at_ms is None)
    assert here.told == [{names[0]}]


@pytest.mark.parametrize(("change", "given"), [("put", ["a", 2]), ("delete", ["a"])])
async def test_a_change_has_an_unknown_outcome_if_the_store_is_closed_after_it(
    change: str,
    given: list[object],
    follow: Follow,
    sessions: tuple[LocalSession, LocalSession],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = await follow(sessions[0])
    await here.live.put("a", 1)
    carry_out = getattr(sessions[0], change)

    async def carry_out_and_close(*given: object) -> object:
        result = await carry_out(*given)
        await sessions[0].close()
        return result

    monkeypatch.setattr(sessions[0], change, carry_out_and_close)
    with pytest.raises(OutcomeUnknown):
        await getattr(here.live, change)(*given)
    with pytest.raises(MetadataClosed):
        await getattr(here.live, change)(*given)


async def test_changes_are_known_as_of_the_oldest_that_is_not_read(
    follow: Follow, sessions: tuple[LocalSession, LocalSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds even if a later change is notified while the read of the first one fails."""
    here = await follow(sessions[0])
    asked, fails = asyncio.Event(), asyncio.Event()

    async def get(_: str) -> None:
        asked.set()
        await fails.wait()
        raise MetadataUnavailable

    monkeypatch.setattr(here.store, "get", get)
    monkeypatch.setattr(following, "RETRY_S", 60.0)
    here.clock.advance(5)
    await sessions[1].put(f"{ROOT}/a", b"1")
    async with in_time():
        await asked.wait()
    here.clock.advance(3)
    await sessions[1].put(f"{ROOT}/b", b"1")
    fails.set()
    await until(lambda: here.live.known_at_ms <= 8 and here.live._changed.keys() >= {"a", "b"})
    here.clock.advance(100)
    assert here.live.known_at_ms == 5


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_it_is_so_on_servers_too(follow: Follow, remote: str, sessions_at: Open) -> None:
    here, elsewhere = [await follow(await sessions_at(remote)) for _ in range(2)]
    await here.live.put("a", 1)
    assert here.live.values == {"a": 1}
    await elsewhere.until(a=1)
    await elsewhere.live.put("a", 2)
    await elsewhere.live.put("b", 2)
    await here.until(a=2, b=2)

    await expire(here.store)
    await elsewhere.live.delete("a")
    await elsewhere.live.put("c", 3)
    await here.until(b=2, c=3)
    await until(lambda: here.live.lost_at_ms is None)
