"""Work in transactions while a server crashes."""

import asyncio
import random
from collections import Counter

import tms.aio
from tests.waiting import in_time
from tms.client.async_client import AsyncClient
from tms.core.errors import OutcomeUnknown, RequestError, Unavailable
from tms.core.values.topic import TopicId

TOPICS = ("left", "right")


UNREACHABLE = b"unreachable "


TIMEOUT_S = 2


class Undecided(Exception):
    """Raised in a transaction that is to be rolled back."""


class Work:
    """The answers that clients got for their transactions, by payload."""

    def __init__(self) -> None:
        self.committed: set[bytes] = set()
        self.undone: set[bytes] = set()
        self.unknown: set[bytes] = set()
        self._changed = asyncio.Event()

    async def run(self, client: AsyncClient, name: str, chance: random.Random) -> None:
        """Run transactions, one after another, until the server is gone."""
        number = 0
        while True:
            number += 1
            payload = f"{name}.{number}".encode()
            self.unknown.add(payload)
            try:
                await self._one(client, payload, chance)
            except (Unavailable, OutcomeUnknown, RequestError):
                return
            finally:
                self._changed.set()

    async def _one(self, client: AsyncClient, payload: bytes, chance: random.Random) -> None:
        form = chance.choice(("commit", "commit", "roll back", "at once", "buffer", "stored"))
        if form == "at once":
            await client.publish_all({topic: [payload] for topic in TOPICS})
        elif form == "stored":
            await self._stored(client, payload)
        else:
            try:
                async with client.transaction(timeout_s=TIMEOUT_S) as tx:
                    for topic in TOPICS:
                        await client.topic(topic).publish(payload, tx, buffer=form == "buffer")
                    if form == "roll back":
                        raise Undecided  # noqa: TRY301  it is what rolls back
            except Undecided:
                self.undone.add(payload)
                self.unknown.discard(payload)
                return
        self.committed.add(payload)
        self.unknown.discard(payload)

    async def _stored(self, client: AsyncClient, payload: bytes) -> None:
        """Make the commit publish the messages that one of two tasks stored."""
        transactions = client.transactions
        started = await transactions.start(tms.StartRequest(timeout_s=TIMEOUT_S))
        transaction = started.transaction_id
        kept = (await transactions.checkpoint(transaction)).write_pointer
        lost = (await transactions.checkpoint(transaction)).write_pointer
        stored = []
        for name in TOPICS:
            topic = client.topic(name)
            await topic.store(payload, kept)
            await topic.store(UNREACHABLE + payload, lost)
            stored.append(tms.Stored(TopicId(topic.namespace, name), kept))
        await transactions.commit(transaction, tms.CommitRequest(publish=stored))

    async def until_committed(self, count: int) -> None:
        """Return after `count` more transactions were committed."""
        wanted = len(self.committed) + count
        async with in_time():
            while len(self.committed) < wanted:
                self._changed.clear()
                await self._changed.wait()

    def check(self, shown: dict[str, list[bytes]]) -> None:
        """Check the messages that readers of both topics get."""
        for payloads in shown.values():
            assert max(Counter(payloads).values(), default=1) == 1
        left, right = (set(shown[topic]) for topic in TOPICS)
        assert left == right
        assert self.committed <= left
        assert not any(payload.startswith(UNREACHABLE) for payload in left)
        assert not self.undone & left
