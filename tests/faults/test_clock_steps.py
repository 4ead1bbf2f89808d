"""The wall clock of a real server steps: nothing is lost, refused, or shown wrongly."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.cli.conftest import run_command
from tests.servers.server_process import ServerProcess
from tests.servers.stepping_clock import SteppingClock
from tests.waiting import WAIT_S_MAX, until
from tms.client.remote.remote_services import RemoteServices
from tms.core.services.transactions import StartRequest, TransactionStatus
from tms.core.values.message import FIRST_ID
from tms.core.values.reading import Isolation, Reading, View
from tms.core.values.topic import TopicId

S, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
T, NEW = TopicId("default", "t"), TopicId("default", "new")
SHORT_LIVED = (
    *("--transaction-lifetime-s-max", "2", "--transaction-timeout-s-max", "2"),
    *("--transaction-timeout-s-default", "2", "--transaction-long-timeout-s", "2"),
    *("--cleanup-period-s", "0.1", "--no-sync"),
)
LIMITS = {"cleanup_grace_s": 1}
PASSES = 12
"""More passes than fit into the grace of a second, at ten per second."""


class Served:
    """A store with successive servers, whose clock steps."""

    def __init__(self, folder: Path, clock: SteppingClock) -> None:
        self.folder = folder / "store"
        self.clock = clock
        self.seen: list[bytes] = []

    @contextmanager
    def server(self, *flags: str) -> Iterator[ServerProcess]:
        store = f"leveldb:{self.folder}"
        with ServerProcess(store, *flags, clock=self.clock, limits=LIMITS) as server:
            yield server


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SteppingClock]:
    """One clock for all tests, so that all their servers are forks of one process."""
    with closing(SteppingClock(tmp_path_factory.mktemp("clock"))) as clock:
        yield clock


@pytest.fixture
def served(tmp_path: Path, clock: SteppingClock) -> Served:
    clock.set_right()
    return Served(tmp_path, clock)


def services_of(server: ServerProcess) -> RemoteServices:
    return RemoteServices(server.url, timeout_s=WAIT_S_MAX, retry_for_s=0, compress=False)


def metrics_of(server: ServerProcess) -> str:
    with urlopen(f"{server.url}/metrics") as answer:
        told: bytes = answer.read()
    return told.decode()


async def read(
    services: RemoteServices, topic: TopicId, view: View = Isolation.COMMITTED
) -> list[bytes]:
    reading = Reading(FIRST_ID, 1_000, view)
    return [m.payload async for block in services.messaging.poll(topic, reading) for m in block]


async def within(
    services: RemoteServices, topic: TopicId, start: bytes, end: bytes | None
) -> list[bytes]:
    reading = Reading(start, 1_000, Isolation.COMMITTED, end)
    return [m.payload async for block in services.messaging.poll(topic, reading) for m in block]


async def stable_end(services: RemoteServices, topic: TopicId) -> bytes:
    """Return the id up to which a reader, a client or Spark, can rely on having read everything."""
    found = (await services.ranges.ranges([topic])).topics[topic]
    assert found is not None
    return found.end


@pytest.mark.parametrize(
    ("back_ms", "hold_s"),
    [(5 * MINUTE, "0"), pytest.param(8 * DAY, "3600", marks=pytest.mark.slow)],
)
def test_a_stable_end_stays_before_what_an_open_transaction_wrote(
    served: Served, back_ms: int, hold_s: str
) -> None:
    hold = ("--clock-hold-s", hold_s)

    async def write(server: ServerProcess) -> int:
        services = services_of(server)
        await services.messaging.create_topic(T, {"ttl": "31536000"})
        transaction = await services.transactions.start(StartRequest(timeout_s=60))
        served.clock.step(-back_ms)
        await services.messaging.publish(T, [b"1"], transaction.write_pointer)
        await services.messaging.publish(T, [b"2"])
        await services.close()
        return transaction.transaction_id

    async def check(server: ServerProcess, transaction_id: int) -> None:
        services = services_of(server)
        end = await stable_end(services, T)
        before = await within(services, T, FIRST_ID, end)
        await services.transactions.commit(transaction_id)
        after = await within(services, T, end, None)
        again = await within(services, T, FIRST_ID, end)
        await services.close()
        assert before == again == []
        assert after == [b"1", b"2"]

    with served.server(*hold) as server:
        open_one = asyncio.run(write(server))
        server.kill()
    with served.server(*hold) as server:
        asyncio.run(check(server, open_one))


def test_what_timed_out_stays_hidden_after_pointers_ran_ahead(served: Served) -> None:
    """The clock was ahead while the store began, then right: pointers are ahead of keys."""
    flags = (*SHORT_LIVED, "--clock-hold-s", "0")

    async def begin(server: ServerProcess) -> None:
        services = services_of(server)
        transaction = await services.transactions.start(StartRequest())
        await services.transactions.commit(transaction.transaction_id)
        await services.close()

    async def leave(server: ServerProcess) -> int:
        services = services_of(server)
        await services.messaging.create_topic(NEW)
        await services.messaging.publish(NEW, [b"seen"])
        transaction = await services.transactions.start(StartRequest())
        await services.messaging.publish(NEW, [b"never"], transaction.write_pointer)
        await services.close()
        return transaction.transaction_id

    async def forgotten(server: ServerProcess, transaction_id: int) -> None:
        """Wait until it has timed out, and, if cleanup does so, is removed from the list."""
        services = services_of(server)

        async def status() -> TransactionStatus:
            return (await services.transactions.info(transaction_id)).status

        async def is_over() -> bool:
            return await status() is not TransactionStatus.IN_PROGRESS

        await until(is_over)
        assert await status() is TransactionStatus.INVALID
        served.clock.step(2 * HOUR)
        await passes(server)
        later = await services.transactions.start(StartRequest())
        await services.transactions.commit(later.transaction_id)
        assert await read(services, NEW) == [b"seen"]
        await services.close()

    served.clock.step(HOUR)
    with served.server(*flags) as server:
        asyncio.run(begin(server))
        server.kill()
    served.clock.step(-HOUR)
    with served.server(*flags) as server:
        dead = asyncio.run(leave(server))
        server.kill()
    with served.server(*flags) as server:
        asyncio.run(forgotten(server, dead))


@pytest.mark.parametrize("step_ms", [pytest.param(400 * DAY, marks=pytest.mark.slow), -HOUR])
def test_transactions_continue_and_their_ages_are_right(served: Served, step_ms: int) -> None:
    """This holds even if the step is believed at once."""

    async def check(server: ServerProcess) -> None:
        services = services_of(server)
        await services.messaging.create_topic(T, {"ttl": str(10 * 365 * DAY // S)})
        before = await services.transactions.start(StartRequest())
        await services.messaging.publish(T, [b"1"], before.write_pointer)
        served.clock.step(step_ms)
        await services.messaging.publish(T, [b"2"], before.write_pointer)
        after = await services.transactions.start(StartRequest())
        await services.messaging.publish(T, [b"3"], after.write_pointer)
        await read(services, T)
        ages = [info.age_ms for info in await services.transactions.in_progress()]
        told = dict(
            line.rsplit(" ", 1)
            for line in metrics_of(server).splitlines()
            if line.startswith(("tms_transaction_oldest_s", "tms_stopped_at_transaction_s"))
        )
        for transaction in (before, after):
            await services.transactions.commit(transaction.transaction_id)
        assert sorted(await read(services, T)) == [b"1", b"2", b"3"]
        await services.close()
        assert len(ages) == 2
        assert all(0 <= age_ms < MINUTE for age_ms in ages)
        assert len(told) == 2
        assert all(0 <= float(age_s) < 60 for age_s in told.values())

    with served.server("--clock-hold-s", "0") as server:
        asyncio.run(check(server))


@pytest.mark.parametrize(("hold_s", "left"), [("3600", [b"1", b"2"]), ("0", [])])
def test_cleanup_by_a_wrong_clock_and_the_cache_say_the_same(
    served: Served, hold_s: str, left: list[bytes]
) -> None:
    """The clock is days ahead for a while. A restart then changes no messages."""
    flags = (*SHORT_LIVED, "--clock-hold-s", hold_s)

    async def wrong_for_a_while(server: ServerProcess) -> None:
        services = services_of(server)
        await services.messaging.create_topic(T)
        await services.messaging.publish(T, [b"1"])
        await services.messaging.publish(T, [b"2"])
        served.clock.step(30 * DAY)
        await passes(server)
        served.clock.step(-30 * DAY)
        first = await read(services, T)
        assert first[-1:] in ([b"2"], []), "cleanup leaves the last row in any case"
        assert first == left or (hold_s == "0" and first == [b"2"])
        assert await read(services, T, Isolation.ALL) == first
        served.seen = first
        await services.close()

    async def check(server: ServerProcess) -> None:
        services = services_of(server)
        assert await read(services, T) == served.seen
        await services.close()

    with served.server(*flags) as server:
        asyncio.run(wrong_for_a_while(server))
        assert "the clock stepped" in server.log
        assert server.stop() == 0
    with served.server(*flags) as server:
        asyncio.run(check(server))


async def passes(server: ServerProcess) -> None:
    """Return once cleanup has made passes for longer than its grace."""

    def count() -> int:
        with urlopen(f"{server.url}/v1/cleanup") as answer:
            told: int = json.load(answer)["passes"]
        return told

    enough = count() + PASSES
    await until(lambda: count() >= enough)


def test_a_step_is_reported_and_accepted(served: Served) -> None:
    with served.server() as server:

        def told(*arguments: str) -> str:
            _, output, errors = run_command("--url", server.url, *arguments)
            return output + errors

        calm = told("clock")
        served.clock.step(2 * HOUR)
        state = json.loads(told("--json", "clock"))
        shown, metrics = told("clock"), metrics_of(server)
        cleanup = told("cleanup", "show")
        wrong = told("clock", "accept", "--step-s", "60")
        right = told("clock", "accept", "--step-s", "7200")
        late = told("clock", "accept", "--step-s", "7200")
        log = server.log

    assert "is believed" in calm
    assert state["held"] == ["expiry", "tombstones"]
    assert abs(state["step_s"] - 7200) <= 1
    assert abs(state["wall_ms"] - state["trusted_ms"] - 2 * HOUR) <= S
    assert f"tms clock accept --step-s {state['step_s']}" in shown
    assert f"tms_clock_step_seconds {state['step_s']}" in metrics
    assert "tms_clock_steps_total 1" in metrics
    assert f"A step of the clock, {state['step_s']} s, is in doubt" in cleanup
    assert "look at it again" in wrong
    assert "is believed" in right
    assert "look at it again" in late
    assert log.count("the clock stepped") == 1


@pytest.mark.parametrize("after", ["suspended", pytest.param("restarted", marks=pytest.mark.slow)])
def test_a_machine_that_slept_or_was_off_is_not_warned(served: Served, after: str) -> None:
    async def write(server: ServerProcess) -> None:
        services = services_of(server)
        await services.messaging.create_topic(T, {"ttl": str(DAY // S)})
        await services.messaging.publish(T, [b"1"])
        await services.close()

    async def check(server: ServerProcess) -> None:
        services = services_of(server)
        await services.messaging.publish(T, [b"2"])
        assert await read(services, T) == [b"2"], "what is older than the ttl has expired"
        await services.close()

    with served.server() as server:
        asyncio.run(write(server))
        if after == "suspended":
            served.clock.suspend(3 * DAY)
            asyncio.run(check(server))
        elif after == "restarted":
            assert server.stop() == 0
        server.kill()
        assert "the clock" not in server.log
    if after == "suspended":
        return
    served.clock.suspend(3 * DAY)
    with served.server() as server:
        asyncio.run(check(server))
        assert "the clock" not in server.log
