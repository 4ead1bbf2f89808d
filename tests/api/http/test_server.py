"""Starting and stopping the server: addresses, signals, requests in progress."""

import asyncio
import signal
import socket
import sys
import threading

import pytest

from api.http.endpoint import Endpoint
from api.http.exchange import Exchange
from api.http.listener.server import ListeningAddress, serve
from tables.memory import MemoryStore
from tests.api.rest import AVRO_TYPE, TOPIC, Live, avro_publish, live
from tests.waiting import WAIT_S_MAX, in_time, until
from tms.core.limits import Limits
from tms.core.values.batch import Batch

pytestmark = pytest.mark.anyio
AVRO = {"content-type": AVRO_TYPE}

PROGRAM = """
import asyncio, uvloop
from prometheus_client import CollectorRegistry
from api.app import create_app
from api.http.listener.server import ListeningAddress, serve
from tms.core.limits import Limits
from tms.core.values.topic import TopicId
from tms.server.node import open_services

async def main():
    services = await open_services("memory:")
    await services.messaging.create_topic(TopicId("ns", "t"))
    app = create_app(services, Limits(), registry=CollectorRegistry())
    await serve([ListeningAddress(app, "127.0.0.1", 0)], limits=Limits(), grace_s=60,
        on_started=lambda url: print(url, flush=True), on_stopping=services.messaging.stop_waiting)
    await services.close()
    print("closed", flush=True)

with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main())
"""


async def start_program() -> tuple[asyncio.subprocess.Process, int]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode()
    return process, int(url.rpartition(":")[2])


async def end_of(process: asyncio.subprocess.Process) -> tuple[int | None, bytes]:
    async with in_time():
        told, _ = await process.communicate()
    return process.returncode, told


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except (ConnectionRefusedError, ConnectionResetError):  # reset: not yet accepted
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_when_accepted_requests_are_answered(number: signal.Signals) -> None:
    process, port = await start_program()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = avro_publish(b"a")
    head = f"POST {TOPIC}/publish HTTP/1.1\r\nhost: localhost\r\ncontent-type: avro/binary\r\n"
    writer.write(f"{head}content-length: {len(body)}\r\nexpect: 100-continue\r\n\r\n".encode())
    assert b"100 Continue" in await reader.readuntil(b"\r\n\r\n")

    process.send_signal(number)
    await until(lambda: refuses(port))
    writer.write(body)

    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"connection: close" in answer
    writer.close()
    assert await end_of(process) == (0, b"closed\n")


async def test_a_second_signal_ends_it_at_once() -> None:
    process, port = await start_program()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST {TOPIC}/publish HTTP/1.1\r\nhost: localhost\r\ncontent-type: avro/binary\r\n"
    writer.write(f"{head}content-length: 9\r\nexpect: 100-continue\r\n\r\n".encode())
    assert b"100 Continue" in await reader.readuntil(b"\r\n\r\n")

    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)

    assert await end_of(process) == (0, b"closed\n")
    writer.close()


async def test_a_waiting_poll_is_answered_at_a_stop(served: Live) -> None:
    await served.create()
    waiting = asyncio.create_task(served.post("poll", {}, query="?wait=60"))
    await served.until(lambda: served.waiters() == 1)

    served.stop.set()

    answer = await waiting
    assert (answer.status_code, answer.content) == (200, b"[]")
    assert answer.headers["connection"] == "close"
    await served.stopped


async def test_idle_connections_are_closed_at_a_stop(served: Live) -> None:
    wire = await served.connect()
    await wire.send("GET", "/ping")
    assert (await wire.answer())[0] == 200

    served.stop.set()

    assert await wire.rest() == b""
    await served.stopped
    await wire.close()


async def test_what_is_not_done_after_the_grace_period_is_cut_off_without_an_answer() -> None:
    async with live(grace_s=0.05) as served:
        await served.create()
        wire = await served.connect()
        expecting = {**AVRO, "content-length": "9", "expect": "100-continue"}
        await wire.send("POST", f"{TOPIC}/publish", headers=expecting)
        await wire.reader.readuntil(b"\r\n\r\n")

        served.stop.set()
        await served.stopped

        assert await wire.rest() == b""
        await wire.close()


async def test_a_publish_that_a_disk_keeps_is_not_at_work_any_more_after_the_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keeps, written = threading.Event(), threading.Event()
    at_work: list[Exchange] = []
    serve_one, write = Endpoint.serve, MemoryStore.write

    async def noted(endpoint: Endpoint, exchange: Exchange) -> None:
        at_work.append(exchange)
        try:
            await serve_one(endpoint, exchange)
        finally:
            at_work.remove(exchange)

    def kept(store: MemoryStore, batch: Batch) -> None:
        if keeps.is_set():
            assert written.wait(WAIT_S_MAX)
        write(store, batch)

    monkeypatch.setattr(MemoryStore, "write", kept)  # before the tables are made
    async with live(grace_s=0.05) as served:
        await served.create()
        await served.publish(b"so that the topic is in memory, and the next one waits but once")
        monkeypatch.setattr(Endpoint, "serve", noted)
        keeps.set()
        wire = await served.connect()
        await wire.send("POST", f"{TOPIC}/publish", avro_publish(b"x"), AVRO)
        await until(lambda: at_work)
        served.stop.set()
        await served.stopped

        assert at_work == []
        assert await wire.rest() == b""
        await wire.close()
        written.set()


def nothing(*_: object) -> None:
    """Ignore the events of starting and stopping."""


async def test_an_address_that_is_taken_is_named(served: Live) -> None:
    with pytest.raises(OSError, match=rf"cannot listen on 127.0.0.1:{served.port}: .*in use"):
        await serve(
            [ListeningAddress(served.app, "127.0.0.1", served.port)],
            limits=Limits(),
            on_started=nothing,
            on_stopping=nothing,
        )


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
async def test_an_address_that_is_not_this_machines_is_named(served: Live, host: str) -> None:
    with pytest.raises(OSError, match=rf"cannot listen on {host}:0: "):
        await serve(
            [ListeningAddress(served.app, host, 0)],
            limits=Limits(),
            on_started=nothing,
            on_stopping=nothing,
        )


async def test_localhost_is_all_of_its_addresses_at_one_port(served: Live) -> None:
    stop = asyncio.Event()
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve(
            [ListeningAddress(served.app, "localhost", 0)],
            limits=Limits(),
            on_started=started.set_result,
            on_stopping=nothing,
            stop=stop,
        )
    )

    answer = await served.http.get(f"{await started}/ping")

    assert answer.text == "OK."
    stop.set()
    await serving
