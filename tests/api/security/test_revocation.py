"""After a revocation the next request is refused, and requests in progress end."""

import asyncio
import base64
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.api.rest import NOW_MS, TOPIC, Wire
from tests.api.security.asking import TIMES, quick, statuses, take_away, waiting, waiting_poll
from tests.api.security.secured import Pair, pair_of_servers
from tests.api.stream_reader import StreamReader
from tests.manual_clock import ManualClock
from tests.waiting import WAIT_S_MAX, in_time, turns, until
from tms.core.values.topic import TopicId
from tms.security.credentials import Verified
from tms.security.passwords import REMEMBERED_MS, PasswordVerifier, hash_password
from tms.security.resources import Action
from tms.security.sessions import SESSIONS_OF_ONE_MAX, VerifyPassword
from tms.security.tokens import new_token

__all__ = ["quick"]

pytestmark = pytest.mark.anyio

T, LONG = TopicId("ns", "t"), TopicId("ns", "tlong")
WAYS = ("directly", "forwarded")
MIB = 1024 * 1024


@pytest.fixture(autouse=True)
def is_no_error(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail if the end of a revoked request is logged as an error: nobody has to act on it."""
    yield
    told = caplog.get_records("call")
    assert [each for each in told if each.levelno >= logging.ERROR or each.exc_info] == []


@pytest.fixture
async def reader(pair: Pair) -> dict[str, str]:
    """The headers of somebody who may read a topic."""
    for topic in (T, LONG):
        await pair.services.messaging.create_topic(topic)
    await pair.allow("ann", Action.CONSUME, name="t*")
    return await pair.token("ann")


@pytest.mark.parametrize("way", WAYS)
async def test_a_head_that_is_known_lets_a_revoked_token_in_no_more(
    pair: Pair, reader: dict[str, str], way: str
) -> None:
    server = pair.servers[way]
    wire = await server.connect()
    for _ in range(TIMES):
        await wire.send("GET", TOPIC, headers=reader)
        assert (await wire.answer())[0] == 200
    await pair.revoke(reader)
    await wire.send("GET", TOPIC, headers=reader)
    assert (await wire.answer())[0] == 401
    await wire.close()


@pytest.mark.parametrize("way", WAYS)
async def test_a_rule_that_is_removed_holds_no_more(
    pair: Pair, reader: dict[str, str], way: str
) -> None:
    server, path = pair.servers[way], f"{TOPIC}/poll"
    more = await pair.allow("ann", Action.PUBLISH, name="t")
    publish = b'{"messages":["x"]}'
    assert await statuses(server, "POST", f"{TOPIC}/publish", publish, reader) == [200] * TIMES
    await pair.disallow(more)
    assert await statuses(server, "POST", f"{TOPIC}/publish", publish, reader) == [403] * TIMES
    assert await statuses(server, "POST", path, b"{}", reader) == [200] * TIMES
    deny = await pair.allow("ann", Action.CONSUME, name="t", effect="deny")
    assert await statuses(server, "POST", path, b"{}", reader) == [404] * TIMES
    await pair.disallow(deny)
    assert await statuses(server, "POST", path, b"{}", reader) == [200] * TIMES


@pytest.mark.parametrize("way", WAYS)
async def test_a_token_that_is_given_to_another_is_theirs_at_once(pair: Pair, way: str) -> None:
    server = pair.servers[way]
    await pair.services.messaging.create_topic(T)
    await pair.allow("ann", Action.CONSUME, name="t")
    token, kept = new_token("ann")
    await pair.leader.grants.add_token(kept)
    headers = {"authorization": f"Bearer {token}"}
    await until(lambda: pair.standby.grants.token(kept.id) is not None)
    assert await statuses(server, "GET", TOPIC, b"", headers) == [200] * TIMES

    changed = type(kept)(kept.id, kept.sha256, "eve")
    await pair.leader.grants.add_token(changed)
    await until(lambda: pair.standby.grants.token(kept.id) == changed)
    assert await statuses(server, "GET", TOPIC, b"", headers) == [404] * TIMES


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", ["token", "end", "rule"])
async def test_a_poll_that_waits_ends(
    pair: Pair, reader: dict[str, str], way: str, what: str, quick: None
) -> None:
    if what == "end":
        reader = await pair.token("ann", expires_ms=pair.clock.now_ms() + 1000)
    polling = await waiting_poll(pair, pair.servers[way], reader)
    status = await take_away(pair, what, reader)
    answer = await asyncio.wait_for(polling, WAIT_S_MAX)
    assert answer.status_code == status
    await until(lambda: waiting(pair) == 0)


@pytest.mark.parametrize("what", ["token", "rule"])
async def test_a_message_that_comes_after_is_not_given(
    pair: Pair, reader: dict[str, str], what: str
) -> None:
    polling = await waiting_poll(pair, pair.leader, reader)
    status = await take_away(pair, what, reader)
    await pair.services.messaging.publish(T, [b"secret"])
    answer = await asyncio.wait_for(polling, WAIT_S_MAX)
    assert answer.status_code == status
    assert b"secret" not in answer.content


async def test_a_standby_gives_no_message_that_comes_after(
    pair: Pair, reader: dict[str, str]
) -> None:
    polling = await waiting_poll(pair, pair.standby, reader)
    await pair.revoke(reader)
    await pair.services.messaging.publish(T, [b"secret"])
    try:
        answer = await asyncio.wait_for(polling, WAIT_S_MAX)
    except httpx.RemoteProtocolError:
        return
    assert answer.status_code == 401
    assert b"secret" not in answer.content


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", ["token", "end", "rule"])
async def test_a_stream_that_waits_ends(
    pair: Pair, reader: dict[str, str], way: str, what: str, quick: None
) -> None:
    if what == "end":
        reader = await pair.token("ann", expires_ms=pair.clock.now_ms() + 1000)
    stream = StreamReader(pair.servers[way].http.base_url.port or 0, fields=reader)
    reading = asyncio.create_task(stream.read())
    await until(lambda: waiting(pair) == 1)
    status = await take_away(pair, what, reader)
    head = await reading
    assert not head or b" 200 " in head  # a standby may not have passed the head on yet
    await until(lambda: waiting(pair) == 0)
    assert b" %d " % status in await stream.read()


@pytest.mark.parametrize("what", ["token", "rule"])
async def test_a_stream_gives_no_message_that_comes_after(
    pair: Pair, reader: dict[str, str], what: str
) -> None:
    stream = StreamReader(pair.leader.http.base_url.port or 0, fields=reader)
    reading = asyncio.create_task(stream.read())
    await until(lambda: waiting(pair) == 1)
    await take_away(pair, what, reader)
    await pair.services.messaging.publish(T, [b"secret"])
    await reading
    assert stream.messages == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", ["token", "rule"])
async def test_a_long_answer_is_cut(
    pair: Pair, reader: dict[str, str], way: str, what: str
) -> None:
    for _ in range(40):
        await pair.services.messaging.publish(T, [b"x" * MIB])
    wire: Wire = await pair.servers[way].connect()
    sent = {"content-type": "application/json", **reader}
    await wire.send("POST", f"{TOPIC}/poll", json.dumps({}).encode(), sent)
    head = await wire.reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    await take_away(pair, what, reader)
    read = 0
    async with in_time():
        while part := await wire.reader.read(MIB):
            read += len(part)
            last = part
    assert read < 40 * MIB
    assert not last.endswith(b"0\r\n\r\n")
    await wire.close()


@pytest.mark.parametrize("way", WAYS)
async def test_what_others_say_keeps_no_poll_alive_whose_token_is_revoked(
    pair: Pair, reader: dict[str, str], way: str, quick: None
) -> None:
    server = pair.servers[way]
    polling = await waiting_poll(pair, server, reader)
    sessions = server.access._sessions
    evil = (await pair.token("eve"))["authorization"].split()[1]
    for number in range(17_000):
        header = f"{'bB'[number % 2]}earer{' ' * (number // 2 + 1)}{evil}"
        await sessions.of_header(header.encode(), "127.0.0.1")
    await pair.revoke(reader)
    assert (await asyncio.wait_for(polling, WAIT_S_MAX)).status_code == 401


@pytest.mark.parametrize("way", WAYS)
async def test_all_ends_that_hangs_on_a_token_however_often_it_was_spelled(
    pair: Pair, reader: dict[str, str], way: str, quick: None
) -> None:
    server = pair.servers[way]
    token = reader["authorization"].split()[1]
    polling = await waiting_poll(pair, server, {"authorization": f"bEARER   {token}"})
    for _ in range(40):
        await pair.services.messaging.publish(LONG, [b"x" * MIB])
    wire: Wire = await server.connect()
    sent = {"content-type": "application/json", "authorization": f"BEARER  {token}"}
    await wire.send("POST", f"{TOPIC}long/poll", b"{}", sent)
    assert (await wire.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    for number in range(17_000):
        header = f"{'bB'[number % 2]}earer{' ' * (number // 2 + 1)}{token}".encode()
        await server.access._sessions.of_header(header, "127.0.0.1")
    await pair.revoke(reader)
    assert (await asyncio.wait_for(polling, WAIT_S_MAX)).status_code == 401
    read = 0
    async with in_time():
        while part := await wire.reader.read(MIB):
            read += len(part)
    assert read < 40 * MIB
    await wire.close()


async def test_a_poll_ends_whose_session_was_pushed_out(
    pair: Pair, reader: dict[str, str], quick: None
) -> None:
    polling = await waiting_poll(pair, pair.leader, reader)
    for _ in range(SESSIONS_OF_ONE_MAX):
        await pair.leader.access._sessions.of_header(
            (await pair.token("ann"))["authorization"].encode(), "127.0.0.1"
        )
    assert pair.leader.access._sessions.cached(reader["authorization"].encode()) is None
    await pair.revoke(reader)
    assert (await asyncio.wait_for(polling, WAIT_S_MAX)).status_code == 401


async def test_decisions_are_kept_of_short_names_and_one_spelling(
    pair: Pair, reader: dict[str, str]
) -> None:
    access = pair.leader.access
    await pair.allow("ann", Action.CONSUME, Action.PUBLISH)
    access._decisions.clear()
    headers = {"content-type": "application/json"}
    for number in range(5):
        path = f"/v1/namespaces/ns/topics/{number}{'x' * 60_000}/publish"
        answer = await pair.leader.http.post(path, content=b"{}", headers={**headers, **reader})
        assert answer.status_code == 400
        spelled = reader["authorization"].replace(" ", " " * (number + 2))
        answer = await pair.leader.http.get(TOPIC, headers={"authorization": spelled})
        assert answer.status_code == 200
    assert not access._decisions
    assert (await pair.leader.http.get(TOPIC, headers=reader)).status_code == 200
    assert [len(key) + len(name) + len(path) <= 512 for key, name, path in access._decisions] == [
        True
    ]


class Counted:
    """Verifies passwords, and counts how often it has."""

    def __init__(self, verify: VerifyPassword) -> None:
        self.count = 0
        self._verify = verify

    async def __call__(self, basic_value: str, address: str) -> Verified:
        verified = await self._verify(basic_value, address)
        self.count += 1
        return verified


@pytest.mark.parametrize("way", WAYS)
async def test_a_password_is_verified_again_while_a_poll_waits(
    anyio_backend: object, tmp_path: Path, way: str, quick: None
) -> None:
    file = tmp_path / "passwords"
    file.write_text(f"ann:{hash_password('right')}\n")
    clock = ManualClock(NOW_MS)
    verifier = PasswordVerifier(str(file), clock)
    verified = Counted(verifier.verify)
    async with pair_of_servers(passwords=verified) as pair:
        await pair.services.messaging.create_topic(T)
        await pair.allow("ann", Action.CONSUME, Action.PUBLISH)
        basic = base64.b64encode(b"ann:right").decode()
        headers = {"authorization": f"Basic {basic}"}
        for is_right in (True, False):
            polling = await waiting_poll(pair, pair.servers[way], headers)
            before = verified.count
            if not is_right:
                file.write_text(f"ann:{hash_password('other')}\n")
            for each in (clock, pair.clock):
                each.advance(REMEMBERED_MS)
            if is_right:
                await until(lambda: verified.count == before + 1)  # noqa: B023  awaited at once
                await turns(20)
                assert not polling.done(), "it goes on"
                await pair.services.messaging.publish(T, [b"x"])
                answer = await asyncio.wait_for(polling, WAIT_S_MAX)
                assert (answer.status_code, len(answer.json())) == (200, 1)
                await pair.services.messaging.delete_topic(T)
                await pair.services.messaging.create_topic(T)
            else:
                assert (await asyncio.wait_for(polling, WAIT_S_MAX)).status_code == 401
    await verifier.close()


@pytest.mark.parametrize("way", WAYS)
async def test_a_token_has_expired_if_the_clock_is_set_past_its_end(
    anyio_backend: object, way: str
) -> None:
    async with pair_of_servers() as pair:
        await pair.services.messaging.create_topic(T)
        await pair.allow("ann", Action.CONSUME)
        reader = await pair.token("ann", expires_ms=pair.clock.now_ms() + 1000)

        async def poll() -> int:
            http = pair.servers[way].http
            return (await http.post(f"{TOPIC}/poll", json={}, headers=reader)).status_code

        assert await poll() == await poll() == 200
        pair.clock.step(1000)
        assert await poll() == 401


@pytest.mark.parametrize("way", WAYS)
async def test_a_removed_password_is_refused_although_the_clock_was_set_back(
    anyio_backend: object, tmp_path: Path, way: str
) -> None:
    file, clock = tmp_path / "passwords", ManualClock(NOW_MS)
    file.write_text(f"ann:{hash_password('right')}\n")
    verifier = PasswordVerifier(str(file), clock)
    async with pair_of_servers(passwords=verifier.verify) as pair:
        await pair.services.messaging.create_topic(T)
        await pair.allow("ann", Action.CONSUME)
        headers = {"authorization": f"Basic {base64.b64encode(b'ann:right').decode()}"}

        async def poll() -> int:
            http = pair.servers[way].http
            return (await http.post(f"{TOPIC}/poll", json={}, headers=headers)).status_code

        assert await poll() == await poll() == 200
        file.write_text("# nobody\n")
        for each in (clock, pair.clock):
            each.step(-86_400_000)
            each.advance(REMEMBERED_MS)
        assert await poll() == 401
    await verifier.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", [1, 3])
async def test_a_group_that_is_taken_out_of_the_file_ends_polls_that_wait(
    anyio_backend: object, tmp_path: Path, way: str, count: int, quick: None
) -> None:
    file, clock, hashed = tmp_path / "passwords", ManualClock(NOW_MS), hash_password("right")
    file.write_text(f"ann:{hashed}:readers\n")
    verifier = PasswordVerifier(str(file), clock)
    verified = Counted(verifier.verify)
    async with pair_of_servers(passwords=verified) as pair:
        await pair.services.messaging.create_topic(T)
        await pair.allow("group:readers", Action.CONSUME)
        basic = base64.b64encode(b"ann:right").decode()
        headers = {"authorization": f"Basic {basic}"}
        http = pair.servers[way].http
        polls = []
        for number in range(count):
            asked = http.post(f"{TOPIC}/poll?wait=20", json={}, headers=headers)
            polls.append(asyncio.create_task(asked))
            await until(lambda: waiting(pair) == number + 1)  # noqa: B023  awaited at once
        file.write_text(f"ann:{hashed}:writers\n")
        for each in (clock, pair.clock):
            each.advance(REMEMBERED_MS)
        for polling in polls:
            answer = await asyncio.wait_for(polling, WAIT_S_MAX)
            assert answer.status_code == (404 if way == "directly" else 401), answer.text
        await until(lambda: waiting(pair) == 0)
        assert (await http.post(f"{TOPIC}/poll", json={}, headers=headers)).status_code == 404

        await pair.allow("ann", Action.CONSUME)  # of another group, and allowed all the same
        polling = asyncio.create_task(http.post(f"{TOPIC}/poll?wait=20", json={}, headers=headers))
        await until(lambda: waiting(pair) == 1)
        before = verified.count
        file.write_text(f"ann:{hashed}:others\n")
        for each in (clock, pair.clock):
            each.advance(REMEMBERED_MS)
        if way == "forwarded":  # the leader knows him by his earlier groups
            assert (await asyncio.wait_for(polling, WAIT_S_MAX)).status_code == 401
        else:
            await until(lambda: verified.count > before)
            await turns(20)
            await pair.services.messaging.publish(T, [b"x"])
            assert (await asyncio.wait_for(polling, WAIT_S_MAX)).status_code == 200
    await verifier.close()
