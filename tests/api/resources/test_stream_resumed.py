"""A stream that is cut at any byte continues without loss or repetition, whatever happens to it."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api.rest import TOPIC, Rest, live
from tests.api.stream_reader import StreamReader
from tests.scale import scaled
from tms.core.limits import Limits

PAGE = 4
"""The messages of a page, so that streams have several."""


class Publish(NamedTuple):
    keys: Sequence[int]
    size: int
    outcome: str
    """`plain`; or how the transaction ends that publishes, `commit` or `abort`; or `stored`: it
    publishes stored messages by one entry, and commits.
    """


class Cut(NamedTuple):
    after: int


steps = st.lists(
    st.builds(
        Publish,
        keys=st.lists(st.integers(0, 2), min_size=1, max_size=6),
        size=st.integers(0, 300),
        outcome=st.sampled_from(("plain", "plain", "commit", "abort", "stored")),
    )
    | st.builds(Cut, after=st.integers(0, 3_000) | st.integers(200, 500))
    | st.sampled_from(("trim", "compact")),
    max_size=12,
)


class World:
    """A topic, and the readers of it."""

    def __init__(self, rest: Rest, *, is_compact: bool) -> None:
        self.rest = rest
        self.is_compact = is_compact
        self.keys: dict[str, int] = {}
        """The keys of all messages, by their ids, in order."""
        self.aborted: set[str] = set()
        self.trimmed: set[str] = set()

    async def publish(self, step: Publish) -> None:
        """Publish, by itself or in a transaction, which then ends."""
        rest = self.rest
        rest.clock.advance(1)
        sent = [{"payload": "x" * step.size, "key": str(key)} for key in step.keys]
        body: dict[str, object] = {"messages": sent}
        is_stored = step.outcome == "stored" and not self.is_compact
        if step.outcome != "plain":
            started = await rest.http.post("/v1/transactions?codec=false")
            body["transactionWritePointer"] = pointer = started.json()["transaction_id"]
        if is_stored:
            assert (await rest.post("store", body)).status_code == 200
            body["messages"] = []
        answer = await rest.post("publish", body, query="?ids=true")
        ids = answer.json()["ids"]
        if step.outcome != "plain":
            verb = "abort" if step.outcome == "abort" else "commit"
            ended = await rest.http.post(f"/v1/transactions/{pointer}/{verb}")
            assert ended.status_code == 200, ended.text
        if is_stored:
            polled = [message_id for message_id, _ in await rest.messages(limit=1000)]
            ids = [each for each in polled if each not in self.keys]
        if step.outcome == "abort":
            self.aborted.update(ids)
        self.keys.update(zip(ids, step.keys, strict=True))

    async def trim(self) -> None:
        self.rest.clock.advance(1)
        answer = await self.rest.http.post(
            f"{TOPIC}/trim", json={"before": self.rest.clock.now_ms()}
        )
        assert answer.status_code == 200, answer.text
        self.trimmed.update(self.keys)

    async def compact(self) -> None:
        """Run a pass, which deletes what is superseded or trimmed."""
        cleanup = self.rest.services.cleanup
        assert cleanup is not None
        assert await cleanup.run_pass(30)

    def check(self, reader: StreamReader, *, committed: bool) -> None:
        """Check all that a reader got that has read to the end."""
        ids = reader.ids
        order = {message_id: number for number, message_id in enumerate(self.keys)}
        places = [order[message_id] for message_id in ids]
        assert places == sorted(set(places)), "in order, each once"
        newest = {key: each for each, key in self.keys.items() if each not in self.aborted}
        may_miss = set(self.trimmed)
        if committed:
            assert not self.aborted & set(ids)
            may_miss |= self.aborted
        if self.is_compact:
            may_miss |= set(self.keys) - set(newest.values())
        assert set(self.keys) - set(ids) <= may_miss


async def _follow(steps: Sequence[object], *, committed: bool, is_compact: bool) -> None:
    limits = Limits(poll_messages_default=PAGE, cleanup_period_s=3600)
    async with live(limits, own=True) as rest:
        await rest.create(**({"cleanup": "compact"} if is_compact else {}))
        world = World(rest, is_compact=is_compact)
        isolation = "committed" if committed else "all"
        reader = StreamReader(rest.port, f"?wait=0&isolation={isolation}")
        for step in steps:
            if isinstance(step, Publish):
                await world.publish(step)
            elif isinstance(step, Cut):
                await reader.read(step.after)
            elif step == "trim":
                await world.trim()
            else:
                await world.compact()
        await reader.read()
        world.check(reader, committed=committed)


@settings(max_examples=scaled(300))
@given(steps=steps, committed=st.booleans(), is_compact=st.booleans())
def test_a_reader_gets_each_message_once_however_it_is_cut(
    steps: Sequence[object], *, committed: bool, is_compact: bool
) -> None:
    asyncio.run(_follow(steps, committed=committed, is_compact=is_compact))
