"""A TCP proxy before a server, which can be cut, made silent, and made slow."""

import asyncio
from contextlib import suppress


class Proxy:
    """Forwards connections to a port of this machine, in the event loop of the test."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._may_pass = asyncio.Event()
        self._may_pass.set()
        self.delay_s = 0.0
        self.port = 0

    async def open(self) -> "Proxy":
        """Listen, on the same port each time."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def hold(self) -> None:
        """Let connections be, and nothing through."""
        self._may_pass.clear()

    def release(self) -> None:
        """Let through what was held and what comes."""
        self._may_pass.set()

    async def cut(self) -> None:
        """End all connections, and refuse new ones until `open`."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._writers:
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(OSError):
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
            self._writers.add(to_writer)
            for source, sink in ((reader, to_writer), (to_reader, writer)):
                task = asyncio.ensure_future(self._pump(source, sink))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            return
        writer.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while part := await source.read(65536):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                await self._may_pass.wait()
                sink.write(part)
                await sink.drain()
        sink.transport.abort()
