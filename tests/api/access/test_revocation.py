"""What is revoked ends what goes on: a known head, a poll that waits, a stream; forwarded too."""

import asyncio

import httpx
import pytest

from api.cluster import forwarding
from api.resources import poll
from tests.api.access.conftest import NS, Guarded
from tests.api.rest import refusal
from tms.security.resources import Action

pytestmark = pytest.mark.anyio

TOPIC = f"{NS}/topics/t"
WAYS = ("itself", "forwarded")
REVOKED = {"token": (401, "credentials_invalid"), "rule": (404, "topic_not_found")}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (poll, forwarding):
        monkeypatch.setattr(module, "CHECK_S", 0.05)


async def allowed(guarded: Guarded) -> tuple[dict[str, str], dict[str, str]]:
    """Return who may consume, and what is to be revoked of that, by its kind."""
    headers = await guarded.headers("ann")
    rule = await guarded.doors.allow("ann", [Action.CONSUME], "ns", "t")
    return headers, {"token": await guarded.doors.id_of("ann"), "rule": rule.id}


async def revoke(guarded: Guarded, what: str, ids: dict[str, str]) -> None:
    if what == "token":
        await guarded.doors.grants.remove_token(ids[what])
    else:
        await guarded.doors.grants.remove_rule(ids[what])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", REVOKED)
async def test_the_next_request_of_a_known_caller_is_refused(
    guarded: Guarded, way: str, what: str
) -> None:
    headers, ids = await allowed(guarded)
    http = guarded.way(way)
    for _ in range(4):
        assert (await http.post(f"{TOPIC}/poll", json={}, headers=headers)).status_code == 200
    await revoke(guarded, what, ids)
    for _ in range(2):
        answer = await http.post(f"{TOPIC}/poll", json={}, headers=headers)
        assert refusal(answer) == REVOKED[what]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", REVOKED)
async def test_a_poll_that_waits_is_ended_and_gives_nothing(
    guarded: Guarded, way: str, what: str
) -> None:
    headers, ids = await allowed(guarded)
    http = guarded.way(way)
    waiting = asyncio.create_task(
        http.post(f"{TOPIC}/poll?wait=30", json={}, headers=headers, timeout=20)
    )
    await guarded.served.until(lambda: guarded.served.waiters() == 1)
    await revoke(guarded, what, ids)
    answer = await waiting
    assert refusal(answer) == REVOKED[what]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", REVOKED)
async def test_a_stream_is_cut_off(guarded: Guarded, way: str, what: str) -> None:
    headers, ids = await allowed(guarded)
    headers["accept-encoding"] = "identity"
    for _ in range(20):
        await guarded.served.publish(b"x" * 1_000_000)
    http = guarded.way(way)
    got: list[int] = []

    async def read() -> None:
        async with http.stream("POST", f"{TOPIC}/poll", json={}, headers=headers) as answer:
            assert answer.status_code == 200
            async for part in answer.aiter_raw(100_000):
                if not got:
                    await revoke(guarded, what, ids)
                got.append(len(part))

    with pytest.raises(httpx.RemoteProtocolError):
        await read()
    assert 0 < sum(got) < 20_000_000


async def test_a_rule_that_comes_lets_a_caller_go_on_at_once(guarded: Guarded) -> None:
    headers = await guarded.headers("ann")
    for _ in range(3):
        answer = await guarded.http.post(f"{TOPIC}/poll", json={}, headers=headers)
        assert refusal(answer) == (404, "topic_not_found")
    await guarded.doors.allow("ann", [Action.CONSUME], "ns", "t")
    answer = await guarded.http.post(f"{TOPIC}/poll", json={}, headers=headers)
    assert answer.status_code == 200
