"""Bodies to and from another server wait for their receiver, and connections buffer little."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.api.cluster.asking import anyio_backend, ask, body_of, streamed, way_to
from tests.api.cluster.peers import OK, Talk, answer_all, peer_that
from tests.servers.authority import Authority
from tests.waiting import turns, until
from tms.core.runtime.tls import TlsFiles, client_context, server_context
from tms.outgoing import upstream
from tms.outgoing.answer import Answer, BrokenAnswer
from tms.outgoing.upstream import NotSent, Upstream

__all__ = ["anyio_backend"]

pytestmark = pytest.mark.anyio

PART = b"x" * 64 * 1024
MANY = 512
"""This number of parts is more than the buffers of two sockets hold."""


async def test_tls_carries_both_bodies(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ours")
    cert, key = authority.issue("server").pair
    sizes = []

    async def behave(talk: Talk) -> None:
        while True:
            sizes.append(len(await talk.request()))
            await talk.say(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (MANY * len(PART)))
            for _ in range(MANY):
                await talk.say(PART)

    async with peer_that(behave, server_context(TlsFiles(cert, key))) as peer:
        way = Upstream(peer.url, client_context(str(authority.ca)))
        for _ in range(2):
            answer = await ask(way, streamed(*[PART] * MANY), length=MANY * len(PART))
            assert len(await body_of(answer)) == MANY * len(PART)
        assert len(peer.talks) == 1
        assert all(size > MANY * len(PART) for size in sizes)
        way.close()


async def test_a_body_waits_for_a_peer_that_does_not_read() -> None:
    given = 0
    may_read = asyncio.Event()

    async def parts() -> AsyncIterator[bytes]:
        nonlocal given
        for _ in range(MANY):
            yield PART
            given += 1

    async def behave(talk: Talk) -> None:
        head = await talk.head()
        await may_read.wait()
        await talk.reader.readexactly(int(head.split(b"content-length: ")[1].split()[0]))
        await talk.say(OK)

    async with peer_that(behave) as peer:
        with way_to(peer) as way:
            sending = asyncio.ensure_future(ask(way, parts(), length=MANY * len(PART)))
            await settled(lambda: given)
            assert given < MANY
            may_read.set()
            assert await body_of(await sending) == b"ok"


async def settled(value: Callable[[], int]) -> None:
    """Return once a number no longer changes."""
    before = -1
    while before != value():
        before = value()
        await turns(50)


async def test_an_answer_waits_for_who_does_not_take_it() -> None:
    said = 0

    async def behave(talk: Talk) -> None:
        nonlocal said
        await talk.request()
        await talk.say(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (MANY * len(PART)))
        for _ in range(MANY):
            await talk.say(PART)
            said += 1
        await answer_all(talk)

    async with peer_that(behave) as peer:
        with way_to(peer) as way:
            answer = await ask(way)
            await settled(lambda: said)
            assert said < MANY
            assert answer.held_bytes < MANY * len(PART) / 4
            assert len(await body_of(answer)) == MANY * len(PART)
            assert await body_of(await ask(way)) == b"ok"
            assert len(peer.talks) == 1


async def test_what_is_answered_early_is_not_sent_to_its_end() -> None:
    refused = b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n"

    async def behave(talk: Talk) -> None:
        await talk.head()
        await talk.say(refused)
        await asyncio.Event().wait()  # it does not read either

    async def parts() -> AsyncIterator[bytes]:
        while True:
            yield PART
            await turns()

    async with peer_that(behave) as peer:
        with way_to(peer) as way:
            answer = await ask(way, parts())
            assert (answer.status_code, await body_of(answer)) == (413, b"")
            peer.behaviour = answer_all
            assert await body_of(await ask(way)) == b"ok"


async def test_what_the_body_raises_is_raised_and_ends_the_connection() -> None:
    seen = []

    async def behave(talk: Talk) -> None:
        await talk.head()
        seen.append(await talk.ended())

    async def parts() -> AsyncIterator[bytes]:
        yield b"one"
        raise ZeroDivisionError

    async with peer_that(behave) as peer:
        with way_to(peer) as way, pytest.raises(ZeroDivisionError):
            await ask(way, parts())
        await until(lambda: len(seen) == 1)
        assert seen[0] in (b"", b"3\r\none\r\n"), "without the last chunk"


Wait = Callable[[Upstream, "asyncio.Task[Answer]"], Awaitable[None]]


async def cancel(_: Upstream, asking: "asyncio.Task[Answer]") -> None:
    asking.cancel()


async def close(way: Upstream, _: "asyncio.Task[Answer]") -> None:
    way.close()


@pytest.mark.parametrize(
    ("end", "raised"), [(cancel, asyncio.CancelledError), (close, BrokenAnswer)]
)
async def test_who_waits_for_ever_can_give_up(end: Wait, raised: type[BaseException]) -> None:
    ended = []

    async def behave(talk: Talk) -> None:
        await talk.request()
        ended.append(await talk.ended())

    async with peer_that(behave) as peer:
        with way_to(peer) as way:
            asking = asyncio.ensure_future(ask(way))
            await until(lambda: len(peer.talks) == 1)
            await turns(5)
            await end(way, asking)
            with pytest.raises(raised):
                await asking
            await until(lambda: ended == [b""])
            assert not way._open


async def test_so_many_are_on_their_way_and_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "CONNECTIONS_MAX", 2)
    may_answer = asyncio.Event()

    async def behave(talk: Talk) -> None:
        while True:
            await talk.request()
            await may_answer.wait()
            await talk.say(OK)

    async with peer_that(behave) as peer:
        with way_to(peer) as way:
            asking = [asyncio.ensure_future(ask(way)) for _ in range(10)]
            await until(lambda: len(peer.talks) == 2)
            asking.pop().cancel()
            await turns(5)
            may_answer.set()
            assert [await body_of(await each) for each in asking] == [b"ok"] * 9
            assert len(peer.talks) == 2


async def test_an_idle_connection_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "IDLE_S_MAX", 0.1)
    async with peer_that(answer_all) as peer:
        with way_to(peer) as way:
            answers = await asyncio.gather(*[ask(way) for _ in range(3)])
            assert [await body_of(each) for each in answers] == [b"ok"] * 3
            assert len(way._open) == 3
            await until(lambda: not way._open)
            assert await body_of(await ask(way)) == b"ok"


async def test_who_waits_for_a_connection_may_leave_at_any_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cancelled request loses no connection, and no place for one."""
    monkeypatch.setattr(upstream, "CONNECTIONS_MAX", 1)
    last = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"
    for said in (OK, last):

        async def behave(talk: Talk, said: bytes = said) -> None:
            while True:
                await talk.request()
                await talk.say(said)

        async with peer_that(behave) as peer:
            with way_to(peer) as way:
                for later in range(12):
                    first, second, third = (asyncio.ensure_future(ask(way)) for _ in range(3))
                    await first
                    await turns(later)
                    second.cancel()
                    await asyncio.wait([second])
                    assert await body_of(await third) == b"ok"
                    assert await body_of(await ask(way)) == b"ok"
                    assert len(way._open) <= 1
                    assert not way._waiting


async def test_those_who_wait_for_a_connection_are_informed_that_there_will_be_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upstream, "CONNECTIONS_MAX", 2)
    async with peer_that(lambda talk: talk.never()) as peer:
        way = Upstream(peer.url)
        asking = [asyncio.ensure_future(ask(way)) for _ in range(6)]
        await until(lambda: len(way._open) == 2)
        way.close()
        ended = await asyncio.gather(*asking, return_exceptions=True)
        assert [type(each) for each in ended] == [BrokenAnswer] * 2 + [NotSent] * 4
