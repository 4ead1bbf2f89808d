"""Servers agree on keys, whichever server makes them, and renew them without losing a forward."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import msgspec
import pytest

from tests.manual_clock import ManualClock
from tests.waiting import turns, until
from tms.core.errors import MetadataClosed, NotAuthenticated, ValueUnreadable
from tms.metadata.host import MetadataHost
from tms.security.forward_keys import HEARD_MS, OLD_MS, PATH, ForwardKeys
from tms.security.forwards import Opener, Sealer
from tms.security.rules import Identity

pytestmark = pytest.mark.anyio
Open = Callable[[], Awaitable[ForwardKeys]]
REQUEST = ("GET", "/", b"")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000_000)


@pytest.fixture
async def host(anyio_backend: str) -> MetadataHost:
    return MetadataHost()


@pytest.fixture
async def keys_of_a_server(host: MetadataHost, clock: ManualClock) -> AsyncIterator[Open]:
    async with AsyncExitStack() as stack:

        async def opened() -> ForwardKeys:
            store = host.open_session()
            stack.push_async_callback(store.close)
            keys = ForwardKeys(store, clock)
            stack.push_async_callback(keys.close)
            await keys.open()
            return keys

        yield opened


async def test_servers_that_start_at_once_have_the_same_key(keys_of_a_server: Open) -> None:
    servers = await asyncio.gather(*(keys_of_a_server() for _ in range(8)))
    assert len({keys.sealing() for keys in servers}) == 1
    key_id, secret = servers[0].sealing()
    assert len(secret) == 32
    assert [keys.valid(key_id) for keys in servers] == [secret] * 8
    assert servers[0].valid("other") is None


async def test_an_old_key_is_replaced_by_whoever_sees_it_first(
    keys_of_a_server: Open, clock: ManualClock
) -> None:
    one, other = await keys_of_a_server(), await keys_of_a_server()
    first = one.sealing()
    clock.advance(OLD_MS - 1)
    one.sealing()
    clock.advance(1)
    assert one.sealing() == other.sealing() == first
    await until(lambda: len(one._keys) == len(other._keys) == 2)
    assert one.sealing() == first, "not all have heard of the new one"
    clock.advance(HEARD_MS + 1)
    assert one.sealing() == other.sealing() != first
    assert other.valid(first[0]) == first[1]
    assert one._keys == other._keys
    assert len(one._keys) == 2


async def test_the_last_three_hold(keys_of_a_server: Open, clock: ManualClock) -> None:
    one, other = await keys_of_a_server(), await keys_of_a_server()
    seen = [one.sealing()]
    for _ in range(3):
        newest = one._keys[0]
        clock.advance(OLD_MS)
        one.sealing()
        await until(lambda newest=newest: newest not in (one._keys[0], other._keys[0]))  # type: ignore[misc, arg-type]
        clock.advance(HEARD_MS + 1)
        seen.append(one.sealing())
    assert len(set(seen)) == 4
    assert other.valid(seen[0][0]) is None
    assert [other.valid(key_id) for key_id, _ in seen[1:]] == [secret for _, secret in seen[1:]]


async def test_no_forward_is_lost_while_keys_are_renewed(
    keys_of_a_server: Open, clock: ManualClock
) -> None:
    servers = [await keys_of_a_server() for _ in range(3)]
    sealers = [Sealer(keys, str(n), clock) for n, keys in enumerate(servers)]
    openers = [Opener(keys, str(n), clock) for n, keys in enumerate(servers)]
    chance = random.Random(1)
    ids = set()
    for _ in range(2_000):
        clock.advance(chance.choice([0, 0, 0, 100, 29_000, HEARD_MS, OLD_MS // 20]))
        target = chance.randrange(3)
        header = chance.choice(sealers).seal(
            Identity("ann"), *REQUEST, target=str(target), body=b""
        )
        ids.add(header.split(b";")[1])
        await turns()
        assert openers[target].open(header, *REQUEST).identity == Identity("ann")
    assert len(ids) > 3


async def test_a_server_whose_clock_is_wrong_does_not_keep_others_from_working(
    host: MetadataHost, keys_of_a_server: Open, clock: ManualClock
) -> None:
    one = await keys_of_a_server()
    first = one.sealing()
    store = host.open_session()
    wrong = ForwardKeys(store, ManualClock(clock.now_ms() + 400 * OLD_MS))
    await wrong.open()
    await until(lambda: len(one._keys) == 2)
    assert one.sealing() == first
    sealed = Sealer(wrong, "2", clock).seal(None, *REQUEST, target="1", body=b"")
    assert Opener(one, "1", clock).open(sealed, *REQUEST)
    await wrong.close()
    await store.close()


async def test_keys_that_were_taken_away_hold_no_more(
    host: MetadataHost, keys_of_a_server: Open, clock: ManualClock
) -> None:
    one, other = await keys_of_a_server(), await keys_of_a_server()
    first = one.sealing()
    header = Sealer(one, "1", clock).seal(None, *REQUEST, target="2", body=b"")
    await one._store.delete(PATH)
    await until(lambda: first not in (one.sealing(), other.sealing()))
    assert one.sealing() == other.sealing()
    with pytest.raises(NotAuthenticated, match="key is unknown"):
        Opener(other, "2", clock).open(header, *REQUEST)


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"{}", b'[{"id": "a"}]', b'[{"id": "a", "secret": "YQ==", "made_ms": 0}]'),
        msgspec.json.encode([{"id": "a;b", "secret": b"x" * 32, "made_ms": 0}]),
    ],
)
async def test_a_value_that_is_none_is_reported_and_changes_nothing(
    keys_of_a_server: Open, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    one = await keys_of_a_server()
    first = one.sealing()
    with caplog.at_level(logging.WARNING, "tms.security.forward_keys"):
        await one._store.put(PATH, value)
        await until(lambda: bool(caplog.records))
    assert one.sealing() == first
    with pytest.raises(ValueUnreadable):
        await keys_of_a_server()


async def test_a_server_without_its_metadata_store_does_not_start(
    host: MetadataHost, clock: ManualClock
) -> None:
    store = host.open_session()
    await store.close()
    with pytest.raises(MetadataClosed):
        await ForwardKeys(store, clock).open()


async def test_secrets_are_not_shown(keys_of_a_server: Open) -> None:
    one = await keys_of_a_server()
    assert str(one.sealing()[1])[2:10] not in repr(one._keys)
