"""Each finding appears on a real server, and disappears once its cause is fixed."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.api.console.site import TOPIC
from tests.api.console.watched import Watched, watched
from tests.api.doors import ROOT, Doors, bearer
from tests.servers.authority import Authority
from tests.waiting import until
from tms.core.limits import Limits
from tms.core.runtime.supervision import supervised
from tms.core.services.transactions import StartRequest
from tms.core.values.groups import Acks, Settle, Take
from tms.core.values.subscriptions import Advance
from tms.security.tokens import new_token

pytestmark = pytest.mark.anyio


async def test_a_reader_far_behind(server: Watched) -> None:
    made = await server.services.subscriptions.create_subscription(TOPIC, "s")
    [_, last] = await server.publish(b"a", b"b")
    assert await server.found() == []
    server.passes(300)

    told = await server.status()
    assert [(each["kind"], each["where"]) for each in told["findings"]] == [
        ("reader_behind", "ns:t s")
    ]
    assert "2 messages behind" in told["findings"][0]["text"]
    [reader] = told["readers"]
    assert (reader["name"], reader["messages"], reader["seconds"]) == ("s", 2, 320.0)

    await server.services.subscriptions.advance(Advance(TOPIC, "s", last, made.version))
    assert await server.found() == []


async def test_a_group_far_behind(server: Watched) -> None:
    groups = server.services.groups
    await groups.create_group(TOPIC, "g")
    await server.publish(b"a", b"b", b"c")
    taken = await groups.take(TOPIC, "g", Take("m", 2, lease_s=3600))
    server.passes(310)

    told = await server.status()
    assert [each["where"] for each in told["findings"]] == ["ns:t g"]
    [reader] = told["readers"]
    assert (reader["messages"], reader["open"], reader["seconds"]) == (3, 3, 320.0)

    for delivery in (taken.delivery, (await groups.take(TOPIC, "g", Take("m", 2))).delivery):
        assert delivery is not None
        await groups.settle(TOPIC, "g", "m", Settle([Acks(delivery)]))
    assert await server.found() == []


async def test_a_transaction_that_holds_readers_up(server: Watched) -> None:
    idle = await server.start(client="idle")
    at_work = await server.start(client="work")
    await server.publish(b"a", pointer=at_work)
    assert await server.found() == []
    server.passes(60)

    told = await server.status()
    [finding] = told["findings"]
    assert (finding["kind"], finding["where"]) == ("transaction_holds", f"transaction {at_work}")
    assert "Readers of ns:t wait for" in finding["text"]
    assert (told["oldest_transaction"], told["oldest_client"]) == (str(idle), "idle")

    await server.services.transactions.commit(at_work)
    assert await server.found() == []


async def test_cleanup_that_is_held_back(server: Watched) -> None:
    holder = await server.start(client="holder")
    lost = await server.start()
    await server.publish(b"a", pointer=lost)
    await server.services.transactions.invalidate(lost)
    server.passes(600)

    assert await server.found() == [("cleanup_held", "cleanup")]

    await server.services.transactions.abort(holder)
    assert await server.found() == []


async def test_cleanup_that_waits_for_the_clock(server: Watched) -> None:
    await server.status()
    server.clock.step(2 * 3600 * 1000)

    assert await server.found() == [("cleanup_held", "cleanup")]

    step_s = server.app.context.clock.state().step_s
    accepted = await server.http.post("/v1/clock/accept", json={"step_s": step_s})
    assert accepted.status_code == 200, accepted.text
    assert await server.found() == []


async def test_a_disk_that_fills(
    anyio_backend: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mib = 1024 * 1024
    real, free_mib = os.statvfs, [50]

    def of_a_small_disk(path: Path) -> object:
        if not Path(path).is_relative_to(tmp_path):
            return real(path)
        return SimpleNamespace(f_bavail=free_mib[0], f_frsize=mib, f_blocks=100)

    monkeypatch.setattr(os, "statvfs", of_a_small_disk)
    async with watched(store=f"leveldb:{tmp_path / 'data'}") as server:
        assert await server.found() == []
        await server.watch.look()
        server.passes(60)
        await server.publish(os.urandom(2 * mib))

        told = await server.status()
        assert [each["where"] for each in told["findings"]] == ["the store's disk"]
        assert told["findings"][0]["is_urgent"]
        assert 1_000 < told["full_in_s"] < 2_000
        assert told["free_bytes"] == 50 * mib

        await server.watch.look()
        server.passes(601)  # the topic stops growing
        assert await server.found() == []

        free_mib[0] = 4
        assert await server.found() == [("disk_filling", "the store's disk")]
        free_mib[0] = 40
        assert await server.found() == []


async def test_requests_that_are_refused(guarded: tuple[Watched, Doors]) -> None:
    server, doors = guarded
    root = bearer(doors.tokens[ROOT])
    await server.watch.look()
    for _ in range(9):
        await server.http.get("/v1/status")
    assert await server.found(**root) == []
    await server.http.get("/v1/status")

    assert await server.found(**root) == [("requests_refused", "status 401")]

    server.passes(20)
    await server.watch.look()
    assert await server.found(**root) == [("requests_refused", "status 401")]
    server.passes(300)
    assert await server.found(**root) == []


async def test_a_token_that_ends_soon(guarded: tuple[Watched, Doors]) -> None:
    server, doors = guarded
    root = bearer(doors.tokens[ROOT])
    now_ms = server.clock.now_ms()
    _, kept = new_token("shop", expires_ms=now_ms + 3 * 86_400_000)
    _, later = new_token("shop", expires_ms=now_ms + 100 * 86_400_000)
    await doors.grants.add_token(kept)
    await doors.grants.add_token(later)

    assert await server.found(**root) == [("ends_soon", f"token {kept.id} of shop")]

    await doors.grants.remove_token(kept.id)
    assert await server.found(**root) == []


async def test_a_certificate_that_ends_soon(anyio_backend: object, tmp_path: Path) -> None:
    issued = Authority(tmp_path / "ca").issue("server")
    async with watched(certificates=[str(issued.cert)]) as server:
        assert await server.found() == []  # by the clock of the test it expires only in years
        left_ms = server.watch._endings()[0].ends_ms - server.clock.now_ms()
        server.clock.step(left_ms - 86_400_000)
        step_s = server.app.context.clock.state().step_s
        await server.http.post("/v1/clock/accept", json={"step_s": step_s})

        told = await server.status()
        assert [each["kind"] for each in told["findings"]] == ["ends_soon"]
        assert "expires in 23 h" in told["findings"][0]["text"]

        issued.cert.unlink()
        assert await server.found() == []


async def test_a_task_that_fails(server: Watched) -> None:
    async def fail() -> None:
        raise RuntimeError("broken")

    task = supervised("a task of this test", fail)
    await until(server.found)
    told = await server.status()
    assert [each["where"] for each in told["findings"]] == ["a task of this test"]
    assert told["findings"][0]["is_urgent"]

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await server.found() == []


async def test_owners_that_become_scarce(anyio_backend: object) -> None:
    async with watched(limits=Limits(transaction_owners_max=10)) as server:
        for number in range(9):
            begun = await server.services.transactions.start(
                StartRequest(owner=f"o{number}", sequence=1)
            )
            await server.services.transactions.commit(begun.transaction_id)

        assert await server.found() == [("scarce", "the server")]

        for number in range(9):
            await server.services.transactions.forget_owner(f"o{number}")
        assert await server.found() == []


async def test_readers_come_in_pages_in_order(server: Watched) -> None:
    for name in ("c", "a", "b"):
        await server.services.subscriptions.create_subscription(TOPIC, name)
    await server.status()

    first = (await server.http.get("/v1/status?limit=2")).json()
    rest = (await server.http.get("/v1/status?limit=2&readers_from=2")).json()

    assert [each["name"] for each in first["readers"]] == ["a", "b"]
    assert first["next_reader"] == 2
    assert [each["name"] for each in rest["readers"]] == ["c"]
    assert rest["next_reader"] is None


async def test_rates_are_of_the_last_minute(server: Watched) -> None:
    assert (await server.status())["messages_in_s"] is None
    await server.watch.look()
    server.passes(50)
    await server.publish(*[b"12345"] * 120)

    told = await server.status()
    assert (told["messages_in_s"], told["bytes_in_s"]) == (2.0, 10.0)
