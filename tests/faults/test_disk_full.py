"""The disk refuses writes: publishers get an error, readers continue, and nothing is lost.

Once there is room again, the server continues by itself.
"""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import tms
import tms.aio
from tests.faults.ledger import Ledger
from tests.faults.load import Load, check_log
from tests.faults.serving import refusal, serve
from tests.faults.shortage import FileLimit, FullDisk, Shortage, small_disk
from tests.servers.server_process import ServerProcess
from tests.waiting import wait_until
from tms.cli.failure import ExitCode
from tms.core.errors import OutcomeUnknown, StoreUnavailable

TOPIC = "log"
SMALL = (
    *("--leveldb-write-buffer-bytes", str(1024 * 1024)),
    *("--leveldb-block-cache-bytes", str(1024 * 1024)),
    *("--cache-bytes-max", str(256 * 1024)),
)
"""Memory so small that polls read the disk and compactions are frequent."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FullDisk]:
    """A disk of 64 MiB."""
    with small_disk(tmp_path / "disk", 64) as disk:
        if disk is None:
            pytest.skip("mounting a file system takes root")
        yield disk


async def create_topic(server: ServerProcess) -> None:
    async with await tms.aio.connect(server.url) as client:
        await client.topic(TOPIC).create()


async def status_of(server: ServerProcess, path: str) -> int:
    async with httpx.AsyncClient(base_url=server.url) as client:
        return (await client.get(path)).status_code


async def bear(server: ServerProcess, ledger: Ledger, load: Load, shortage: Shortage) -> None:
    """Start a shortage, check the server's behaviour, and wait until it is over."""
    await load.until_acknowledged(50)
    failures_before = len(load.failures)
    shortage.begin(server)
    await load.until_failed(20)

    assert await status_of(server, "/ready") == 503
    assert await status_of(server, "/health") == 200
    poll_failures_before = len(load.poll_failures)
    async with await tms.aio.connect(server.url, retry_for_s=0) as client:
        log = [message async for message in client.topic(TOPIC).poll()]
    await load.until_failed(20)
    await load.until_polled(2)
    assert log[: len(ledger.seen)] == ledger.seen
    assert len(log) >= len(ledger.followed) > 0
    assert len(load.poll_failures) == poll_failures_before, load.poll_failures
    codes = [type(error) for error in load.failures[failures_before:]]
    assert set(codes) == {OutcomeUnknown, StoreUnavailable}, set(codes)
    assert codes[-1] is StoreUnavailable

    shortage.end(server)
    await load.until_acknowledged(50)
    assert await status_of(server, "/ready") == 200


def check_shortage(folder: Path, shortage: Shortage, chance: random.Random) -> None:
    """Check two shortages, a kill -9, a shortage after a restart, and an orderly end."""
    ledger = Ledger()

    async def bear_times(server: ServerProcess, times: int) -> None:
        async with Load(server.url, TOPIC, ledger, chance) as load:
            for _ in range(times):
                await bear(server, ledger, load, shortage)
        await check_log(server.url, TOPIC, ledger, settled=True)

    with serve(folder, *SMALL) as server:
        asyncio.run(create_topic(server))
        asyncio.run(bear_times(server, 2))
        server.kill()
    with serve(folder, *SMALL) as server:
        asyncio.run(check_log(server.url, TOPIC, ledger, settled=True))
        asyncio.run(bear_times(server, 1))
        assert server.stop() == 0
        assert "Traceback" not in server.log
    with serve(folder, *SMALL) as server:
        asyncio.run(check_log(server.url, TOPIC, ledger, settled=True))


@pytest.mark.slow
def test_a_disk_that_takes_no_writes(tmp_path: Path, chance: random.Random) -> None:
    check_shortage(tmp_path / "data", FileLimit(0), chance)


@pytest.mark.slow
def test_a_disk_that_takes_less_than_an_opening_writes(
    tmp_path: Path, chance: random.Random
) -> None:
    """This happens under a quota: to close a store that cannot be reopened would end the polls."""
    check_shortage(tmp_path / "data", FileLimit(200_000), chance)


def test_the_reserve_makes_room_for_deletions(disk: FullDisk) -> None:
    reserve = disk.data / "reserve"
    with serve(disk.data, *SMALL, "--disk-reserve-bytes", "4000000") as server:
        assert server.url
        assert reserve.stat().st_blocks * 512 >= 4_000_000
        with tms.connect(server.url, retry_for_s=0) as client:
            topic = client.topic(TOPIC)
            topic.create()
            topic.publish(b"kept")
            disk.begin()

            def is_full() -> bool:
                try:
                    topic.publish(b"x" * 10_000)
                except (StoreUnavailable, OutcomeUnknown):
                    return True
                return False

            wait_until(is_full)
            with pytest.raises(StoreUnavailable):
                topic.trim(before=0)

            reserve.unlink()

            def is_deleted() -> bool:
                try:
                    topic.delete()
                except StoreUnavailable:
                    return False
                return True

            wait_until(is_deleted)
        assert server.stop() == 0
    disk.end()
    with serve(disk.data, *SMALL, "--disk-reserve-bytes", "1000000") as server:
        assert server.url
        assert reserve.exists()


@pytest.mark.slow
def test_a_full_disk(disk: FullDisk, chance: random.Random) -> None:
    check_shortage(disk.data, disk, chance)


@pytest.mark.slow
def test_a_disk_with_little_room_again_and_again(disk: FullDisk, chance: random.Random) -> None:
    """Large flushes and compactions reach the end of the disk at arbitrary points.

    A kill hits the server before, while or after it opens the store again.
    """
    ledger = Ledger()

    async def run_out_of_room(server: ServerProcess) -> None:
        async with Load(server.url, TOPIC, ledger, chance, payload_bytes_max=50_000) as load:
            for _ in range(3):
                disk.leave(chance.randrange(2_200_000, 5_000_000))
                await load.until_failed(5)
            disk.end()
            if chance.random() < 0.5:
                await load.until_acknowledged(chance.randrange(1, 30))
            server.kill()

    for _ in range(4):
        with serve(disk.data, *SMALL) as server:
            if not ledger.requests:
                asyncio.run(create_topic(server))
            asyncio.run(check_log(server.url, TOPIC, ledger, settled=True))
            asyncio.run(run_out_of_room(server))
    with serve(disk.data, *SMALL) as server:
        asyncio.run(check_log(server.url, TOPIC, ledger, settled=True))


@pytest.mark.slow
def test_killed_and_started_on_a_full_disk(disk: FullDisk, chance: random.Random) -> None:
    ledger = Ledger()

    async def publish_until_full(server: ServerProcess) -> None:
        await create_topic(server)
        async with Load(server.url, TOPIC, ledger, chance) as load:
            await load.until_acknowledged(100)
            disk.begin(server)
            await load.until_failed(20)
            server.kill()

    with serve(disk.data, *SMALL) as server:
        asyncio.run(publish_until_full(server))

    exit_code, log = refusal(disk.data, *SMALL)
    assert exit_code == ExitCode.AWAY, log
    assert "The store cannot be used now" in log
    assert "No space left on device" in log
    assert "Traceback" not in log

    disk.end()
    with serve(disk.data, *SMALL) as server:
        asyncio.run(check_log(server.url, TOPIC, ledger, settled=True))


@pytest.mark.slow
def test_files_that_may_not_grow_far(tmp_path: Path, chance: random.Random) -> None:
    """The log reaches the limit after every few flushes, and so do tables in compactions."""
    ledger = Ledger()

    async def publish_against_limits(server: ServerProcess) -> None:
        await create_topic(server)
        async with Load(server.url, TOPIC, ledger, chance) as load:
            for _ in range(4):
                limit = FileLimit(chance.randrange(70_000, 1_500_000))
                limit.begin(server)
                await load.until_failed(5)
                if chance.random() < 0.5:
                    limit.end(server)
                    await load.until_acknowledged(20)
            limit.end(server)
            await load.until_acknowledged(20)
        await check_log(server.url, TOPIC, ledger, settled=True)

    with serve(tmp_path, *SMALL) as server:
        asyncio.run(publish_against_limits(server))
        server.kill()
    with serve(tmp_path, *SMALL) as server:
        asyncio.run(check_log(server.url, TOPIC, ledger, settled=True))


@pytest.mark.slow
def test_stopped_on_a_full_disk(disk: FullDisk, chance: random.Random) -> None:
    ledger = Ledger()

    async def publish_until_full(server: ServerProcess) -> None:
        await create_topic(server)
        async with Load(server.url, TOPIC, ledger, chance) as load:
            await load.until_acknowledged(100)
            disk.begin(server)
            await load.until_failed(chance.choice((1, 30)))
            server.terminate()
            exit_code = await asyncio.to_thread(server.wait)
        assert exit_code == 0
        assert "Traceback" not in server.log

    with serve(disk.data, *SMALL) as server:
        asyncio.run(publish_until_full(server))
    disk.end()
    with serve(disk.data, *SMALL) as server:
        asyncio.run(check_log(server.url, TOPIC, ledger, settled=True))


def test_topics_cannot_be_changed_in_the_meantime(tmp_path: Path) -> None:
    async def change_topics(server: ServerProcess) -> None:
        async with await tms.aio.connect(server.url, retry_for_s=0) as client:
            await client.topic("kept").create(ttl=100)
            limit = FileLimit(0)
            limit.begin(server)
            with pytest.raises(OutcomeUnknown):
                await client.topic("other").create()
            for change in (
                client.topic("kept").delete(),
                client.topic("kept").replace_properties(ttl=200),
            ):
                with pytest.raises(StoreUnavailable):
                    await change
            assert await client.topics() == ["kept"]
            limit.end(server)
        async with await tms.aio.connect(server.url, retry_for_s=20) as client:
            await client.topic("kept").replace_properties(ttl=300)
            assert await client.topics() == ["kept"]

    with serve(tmp_path) as server:
        asyncio.run(change_topics(server))
        server.kill()
