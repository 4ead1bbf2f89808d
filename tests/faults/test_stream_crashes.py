"""Streams, and raw publishes, of a server that is killed again and again."""

import asyncio
import random
from pathlib import Path

import httpx

from tests.api.rest import TOPIC
from tests.api.stream_reader import StreamReader
from tests.scale import scaled
from tests.servers.server_process import ServerProcess

CRASHES = scaled(10)
READERS = 3


def test_a_stream_continues_after_each_crash(tmp_path: Path) -> None:
    store = f"leveldb:{tmp_path / 'data'}"
    server = ServerProcess(store)
    port, ids = server.port, list[str]()

    def publish(*texts: str) -> None:
        """Publish each line of a body as a message."""
        answer = httpx.post(
            f"http://127.0.0.1:{port}{TOPIC}/messages",
            content="\n".join(texts),
            headers={"content-type": "application/x-ndjson"},
            trust_env=False,
        )
        assert answer.status_code == httpx.codes.OK, answer.text
        ids.extend(answer.json()["ids"])

    async def lives() -> None:
        nonlocal server
        readers = [StreamReader(port) for _ in range(READERS)]
        for life in range(CRASHES):
            reading = [asyncio.create_task(each.read()) for each in readers]
            for number in range(random.randint(1, 5)):
                await asyncio.to_thread(publish, *(f'"{life}, {number}"',) * random.randint(1, 9))
            await asyncio.to_thread(server.kill)
            await asyncio.gather(*reading)
            server = ServerProcess(store, port=port)
            assert server.url
        for each in readers:
            await each.read(until=len(ids))
            assert each.ids == ids

    httpx.put(f"http://127.0.0.1:{port}{TOPIC}", trust_env=False).raise_for_status()
    asyncio.run(lives())
    server.kill()
