"""Whether a gateway closes idle connections is tried."""

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from tms.cluster import gateway
from tms.cluster.gateway import check_idle_close

pytestmark = pytest.mark.anyio

HOST = "127.0.0.1"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def _close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


@asynccontextmanager
async def closing_after(seconds: float) -> AsyncIterator[int]:
    """A server that closes what is idle for so long, or when it is closed."""
    closed = asyncio.Event()

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(closed.wait(), seconds)
        writer.close()

    server = await asyncio.start_server(accept, HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        closed.set()
        server.close()


async def test_one_that_closes_in_time_is_right() -> None:
    async with closing_after(0.05) as port:
        assert await check_idle_close(HOST, port, 60.0) is None


async def test_one_that_does_not_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "SLACK_S", 0.1)
    async with closing_after(60.0) as port:
        problem = await check_idle_close(HOST, port, 0.1)

    assert problem is not None
    assert f"{HOST}:{port} keeps an idle connection for more than 0.1 s" in problem
    assert "hbase.thrift.server.socket.read.timeout" in problem


async def test_one_that_closes_while_we_are_paused_is_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gateway, "SLACK_S", 0.2)
    accepted = threading.Event()

    def close_soon(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        accepted.set()
        time.sleep(0.05)
        connection.close()

    with socket.create_server((HOST, 0)) as listening:
        closing = threading.Thread(target=close_soon, args=[listening])
        closing.start()
        checking = asyncio.create_task(check_idle_close(HOST, listening.getsockname()[1], 0.2))
        await asyncio.to_thread(accepted.wait)
        time.sleep(1.0)  # noqa: ASYNC251  the pause

        assert await checking is None
        closing.join()


async def test_one_that_is_not_there_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "_RETRY_S", 0.01)
    server = await asyncio.start_server(_close, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    checking = asyncio.create_task(check_idle_close(HOST, port, 60.0))
    await asyncio.sleep(0.05)
    assert not checking.done()

    server = await asyncio.start_server(_close, HOST, port)
    assert await checking is None
    server.close()
