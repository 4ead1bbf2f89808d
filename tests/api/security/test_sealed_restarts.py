"""Servers restart, change leaders, and have wrong clocks: a good token never gets a 401."""

import asyncio
import gc
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from api.cluster import ways
from tests.api.rest import TOPIC, refusal
from tests.api.security.asking import waiting
from tests.api.security.secured import Pair
from tests.manual_clock import ManualClock
from tests.waiting import WAIT_S_MAX, in_time, turns, until
from tms.client.remote.access import Access
from tms.client.remote.http import Http
from tms.core.values.caller import Caller
from tms.core.values.topic import TopicId
from tms.security.forwards import BOOT_HEADER, HEADER, Opener, Sealer, new_boot
from tms.security.resources import Action
from tms.security.rules import Identity
from tms.server.security_part import Signing

pytestmark = pytest.mark.anyio

T = TopicId("ns", "t")
PUBLISH = f"{TOPIC}/publish"
BODY = {"messages": ["x"]}
NOBODY_LEADS = "http://127.0.0.1:1"
TURNS = 40


@pytest.fixture(autouse=True)
def is_no_error(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    told = caplog.get_records("call")
    assert [each for each in told if each.levelno >= logging.ERROR or each.exc_info] == []


@pytest.fixture
async def ann(pair: Pair) -> dict[str, str]:
    await pair.services.messaging.create_topic(T)
    await pair.allow("ann", Action.PUBLISH, Action.CONSUME, name="t")
    return await pair.token("ann")


def start_anew(pair: Pair, ahead_ms: int = 0) -> str:
    """Replace the leader by a process that has just started; return its boot id."""
    boot = new_boot()
    clock = ManualClock(pair.clock.now_ms() + ahead_ms)
    opener = Opener(pair.leader.keys, pair.leader.url, clock, boot)
    pair.leader.access._opener = opener
    return boot


@pytest.mark.parametrize("ahead_ms", [-30_000, -8_000, 0, 1, 8_000, 30_000])
@pytest.mark.parametrize("is_told", ["told", "not told"])
async def test_clocks_that_agree_within_half_a_minute_do(
    pair: Pair, ann: dict[str, str], ahead_ms: int, is_told: str
) -> None:
    boot = start_anew(pair, ahead_ms)
    if is_told == "told":
        pair.forwarder.forward_to(pair.leader.url, boot)
    for path, body in ((PUBLISH, BODY), (f"{TOPIC}/poll", {})):
        answer = await pair.standby.http.post(path, json=body, headers=ann)
        assert answer.status_code == 200, answer.text
    assert len(answer.json()) == 1, "what was sealed anew was done once"


async def test_a_body_that_was_streamed_to_an_earlier_process_is_not_done(
    pair: Pair, ann: dict[str, str]
) -> None:
    pair.forwarder.forward_to(pair.leader.url, start_anew(pair))
    start_anew(pair)

    async def body() -> Any:
        for part in (b'{"messages":', b'["x"]}'):
            await turns(5)
            yield part

    headers = {**ann, "content-type": "application/json"}
    answer = await pair.standby.http.post(PUBLISH, content=body(), headers=headers)
    assert refusal(answer) == (503, "no_leader")
    assert answer.headers["retry-after"]
    answer = await pair.standby.http.post(PUBLISH, content=body(), headers=headers)
    assert answer.status_code == 200, "then the process is known"
    assert len((await pair.leader.http.post(f"{TOPIC}/poll", json={}, headers=ann)).json()) == 1


@pytest.mark.parametrize("why", ["clocks", "keys"])
async def test_what_a_server_says_of_anothers_seal_is_not_the_clients_401(
    pair: Pair, ann: dict[str, str], why: str
) -> None:
    if why == "clocks":
        pair.forwarder.forward_to(pair.leader.url, start_anew(pair, 31_000))
    else:
        pair.forwarder._sealer = Sealer(_OtherKeys(), "7", pair.clock)
    for method, path, body in (("POST", PUBLISH, BODY), ("GET", TOPIC, None)):
        answer = await pair.standby.http.request(method, path, json=body, headers=ann)
        assert refusal(answer) == (503, "no_leader")
        assert BOOT_HEADER not in answer.headers
    told = [json.loads(line) for line in pair.leader.audited.lines]
    assert HEADER in told[-1]["reason"], "the leader's audit says why"
    for headers in ({}, {"authorization": "Bearer wrong"}):
        answer = await pair.standby.http.post(PUBLISH, json=BODY, headers=headers)
        assert answer.status_code == 401, "a bad one of the client is"


class _OtherKeys:
    def sealing(self) -> tuple[str, bytes]:
        return "k", b"0" * 32

    def valid(self, key_id: str) -> bytes | None:
        return self.sealing()[1] if key_id else None


async def test_a_servers_own_calls_continue_when_the_other_starts_again(pair: Pair) -> None:
    sealer = Sealer(pair.standby.keys, "7", pair.clock)
    path = "v1/namespaces/system/topics/_schemas"
    signing = Signing(sealer, pair.leader.url, start_anew(pair))
    access = Access(None, None, signing, allow_plaintext=True)
    http = Http(pair.leader.url, timeout_s=10, compress=False, access=access)
    registry = Caller(part="registry")
    await http.send("PUT", path, caller=registry)
    start_anew(pair, 8_000)
    for _ in range(2):
        await http.send("GET", path, caller=registry)
    await http.close()


# anyio leaves a transport to the collector if it is cancelled while it connects. The
# collector has to find it before the loop ends: a loop that is closed cannot close it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_change_of_leader_at_any_moment_causes_no_401_or_500(
    pair: Pair, ann: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, forwarder = pair.leader.url, pair.forwarder
    begun = asyncio.Event()
    forward = forwarder.forward

    async def noted(*arguments: Any, **named: Any) -> None:
        begun.set()
        await forward(*arguments, **named)

    monkeypatch.setattr(forwarder, "forward", noted)
    monkeypatch.setattr(ways, "GRACE_S", 0.0)
    found: dict[int, int] = {}
    for later in range(TURNS):
        for changed in (None, NOBODY_LEADS, pair.standby.url, leader):
            forwarder.forward_to(None)
            boot = start_anew(pair)
            forwarder.forward_to(leader, boot)
            begun.clear()
            asked = asyncio.create_task(pair.standby.http.post(PUBLISH, json=BODY, headers=ann))
            async with in_time():
                await begun.wait()
                await turns(later)
                forwarder.forward_to(changed, new_boot() if changed == leader else "")
                answer = await asked
            assert answer.status_code in (200, 503, 504), (later, changed, answer.text)
            found[answer.status_code] = found.get(answer.status_code, 0) + 1
    assert set(found) >= {200, 504}, found
    gc.collect()
    forwarder.forward_to(leader, boot)
    assert (await pair.standby.http.post(PUBLISH, json=BODY, headers=ann)).status_code == 200


async def test_a_poll_that_waits_at_an_earlier_process_is_interrupted(
    pair: Pair, ann: dict[str, str]
) -> None:
    pair.forwarder.forward_to(pair.leader.url, start_anew(pair))
    asked = pair.standby.http.post(f"{TOPIC}/poll?wait=20", json={}, headers=ann)
    polling = asyncio.create_task(asked)
    await until(lambda: waiting(pair) == 1)
    pair.forwarder.forward_to(pair.leader.url, new_boot())
    assert refusal(await asyncio.wait_for(polling, WAIT_S_MAX)) == (504, "outcome_unknown")


def test_identities_are_reported_for_one_process() -> None:
    sealer = Sealer(_OtherKeys(), "7", ManualClock(0))
    header = sealer.seal(Identity("ann"), "GET", "/", b"", target="x", body=b"", boot="a" * 16)
    assert b";for=" + b"a" * 16 + b";" in header
