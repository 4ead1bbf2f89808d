"""A consumer whose position moves with its commits, and what must be there of that."""

import asyncio

from tms.client.async_client import AsyncClient
from tms.core.errors import OutcomeUnknown, RequestError, Unavailable


class Pump:
    """Takes messages from one topic to another, one a transaction, which moves its position."""

    COUNT = 3_000

    def __init__(self) -> None:
        self.committed = 0
        """How many transactions were answered with a commit."""

    async def prepare(self, client: AsyncClient) -> None:
        """Create the topics, with what there is to take."""
        for topic in ("in", "out"):
            await client.topic(topic).create()
        await client.topic("in").publish([b"%d" % number for number in range(self.COUNT)])
        await client.topic("in").subscription("pump").create()

    async def run(self, client: AsyncClient) -> None:
        """Go on until something fails."""
        source, target = client.topic("in").subscription("pump"), client.topic("out")
        try:
            while True:
                async with client.transaction(timeout_s=5) as tx:
                    [message] = [message async for message in source.poll(1, tx=tx)]
                    await target.publish(message.payload, tx)
                    await source.advance(message, tx)
                self.committed += 1
        except (Unavailable, OutcomeUnknown, RequestError):
            return

    async def run_on(self, client: AsyncClient) -> None:
        """Go on, whatever fails."""
        while True:
            await self.run(client)
            await asyncio.sleep(0.1)

    async def check(self, client: AsyncClient) -> None:
        """Check that what was committed, and nothing else, has moved the position."""
        position = await client.topic("in").subscription("pump").position()
        taken = [message.id async for message in client.topic("in").poll()][: position.version]
        given = [message.payload async for message in client.topic("out").poll(committed=True)]
        assert given == [b"%d" % number for number in range(position.version)]
        assert position.after == (taken[-1] if taken else None)
        assert position.version >= self.committed
        self.committed = position.version
