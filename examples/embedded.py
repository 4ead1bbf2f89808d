"""Use a store in this process, without a server: for tests, tools and small programs.

python examples/embedded.py

The folder belongs to this process while it is open. A server can serve the same folder afterwards:
tms serve --store leveldb:FOLDER
"""

import asyncio
import contextlib
import tempfile

import tms


def remember(folder: str) -> None:
    """Publish once more at each run, with the client for threads."""
    with tms.connect(f"leveldb:{folder}") as client:
        runs = client.topic("runs")
        with contextlib.suppress(tms.TopicExists):
            runs.create()
        runs.publish(b"a run")
        print("runs so far:", sum(1 for _ in runs.poll()))


async def wait_for_one() -> None:
    """Publish and follow at the same time, with the client for asyncio, in memory."""
    async with tms.aio.connect("memory:") as client:
        topic = client.topic("news")
        await topic.create()

        async def first() -> bytes:
            async for message in topic.follow():
                return message.payload
            raise AssertionError("follow ends only by an error")

        reader = asyncio.create_task(first())
        await topic.publish(b"it works")
        print("heard:", (await reader).decode())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as parent:
        for _ in range(2):
            remember(f"{parent}/data")
    asyncio.run(wait_for_one())
