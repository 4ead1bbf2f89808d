"""A consumer whose position moves with its commits, and a check of the result."""

from tests.waiting import turns, until
from tms.client.async_client import AsyncClient
from tms.core.errors import OutcomeUnknown, RequestError, Unavailable

TIMEOUT_S = 5
"""A transaction that a crash left open becomes invalid after this time."""


class Pump:
    """Moves messages to another topic, one per transaction, which also moves its position."""

    COUNT = 3_000

    def __init__(self) -> None:
        self.committed = 0
        """How many transactions were answered with a commit."""
        self._first_version = 0

    async def prepare(self, client: AsyncClient) -> None:
        """Create the topics, and publish the messages to move."""
        for topic in ("in", "out"):
            await client.topic(topic).create()
        await client.topic("in").publish([b"%d" % number for number in range(self.COUNT)])
        created = await client.topic("in").subscription("pump").create()
        self._first_version = created.version

    async def run(self, client: AsyncClient) -> None:
        """Continue until something fails."""
        source, target = client.topic("in").subscription("pump"), client.topic("out")
        try:
            while True:
                async with client.transaction(timeout_s=TIMEOUT_S) as tx:
                    [message] = [message async for message in source.poll(1, tx=tx)]
                    await target.publish(message.payload, tx)
                    await source.advance(message, tx)
                self.committed += 1
        except (Unavailable, OutcomeUnknown, RequestError):
            return

    def has_committed(self, count: int) -> bool:
        return self.committed >= count

    async def run_on(self, client: AsyncClient) -> None:
        """Continue after any failure."""
        while True:
            await self.run(client)
            await turns()

    async def _given(self, client: AsyncClient, moves: int) -> list[bytes]:
        """Return the committed messages, once no transaction left open by a crash hides some."""

        async def given() -> list[bytes]:
            return [each.payload async for each in client.topic("out").poll(committed=True)]

        async def is_shown() -> bool:
            return len(await given()) >= moves

        await until(is_shown)
        return await given()

    async def check(self, client: AsyncClient) -> None:
        """Check that committed transactions, and no others, have moved the position."""
        position = await client.topic("in").subscription("pump").position()
        moves = position.version - self._first_version
        taken = [message.id async for message in client.topic("in").poll()][:moves]
        given = await self._given(client, moves)
        assert given == [b"%d" % number for number in range(moves)]
        assert position.after == (taken[-1] if taken else None)
        assert moves >= self.committed
        self.committed = moves
