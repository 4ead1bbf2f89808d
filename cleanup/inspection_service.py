"""Inspects and checks tables part by part: those of a working server, or of a store without one.

Implements `tms.core.values.inspection.PartwiseInspection`. Tables are read in threads, in parts
bounded in rows and bytes, one part at a time, because each may need all topics in memory. Other
calls in the meantime get `DebugBusy`. A server supplies the state of its transactions, because its
log changes. An apparent problem is checked again after a moment, because the server may have
written between two reads.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Protocol

from cleanup.inspection import StateOfTransactions, row_facts
from cleanup.verification import CHECKED_BY_ROW, Verification
from tables.store import Row, Store
from tms.core.errors import DebugBusy, TopicNotFound, TransactionsElsewhere
from tms.core.limits import Limits
from tms.core.runtime.clock import Clock
from tms.core.values.groups import Group
from tms.core.values.inspection import Bounds, Facts, Problems, Rows, Size
from tms.core.values.message import ID_BYTES
from tms.core.values.topic import TopicId
from tms.messaging.groups.service import GroupService
from tms.transactions.snapshot_codec import decode_snapshot, time_of_snapshot

_BYTES_MAX = 4 * 1024 * 1024
_LOOK_AGAIN_S = 0.5
_END = b"\xff"
_CACHE = "cache"


class CacheChecker(Protocol):
    """Compares the cache with the Message table."""

    async def problems(self, after: str, limit: int) -> tuple[list[str], int, str | None]:
        """Check topics after a name; return problems, how many were checked, and the next name."""
        ...


Snapshot = Callable[[], Awaitable[bytes | None]]
"""Returns a snapshot of the transactions, None if they are managed elsewhere."""


class Partwise:
    """An inspection of the tables of one store."""

    def __init__(
        self,
        store: Store,
        limits: Limits,
        clock: Clock,
        *,
        snapshot: Snapshot | None = None,
        cache: CacheChecker | None = None,
        groups: GroupService | None = None,
    ) -> None:
        """Inspect `store`; the other parts are a server's, None if no server has the store."""
        self._store = store
        self._limits = limits
        self._clock = clock
        self._snapshot = snapshot
        self._cache = cache
        self._groups = groups
        self._is_busy = False
        self._recovered = functools.cache(self._looking().state)

    def close(self) -> None:
        """Close the store, if it is not a server's."""
        self._store.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Make no other report inside the block. Raises `DebugBusy`."""
        if self._is_busy:
            raise DebugBusy
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False

    def _looking(
        self, state: StateOfTransactions = None, transactions_ms: int | None = None
    ) -> Verification:
        now_ms = self._clock.expiry_ms()
        return Verification(self._store, self._limits, now_ms, state, transactions_ms)

    async def _inspection(self) -> Verification:
        """Return an inspection with the state of transactions."""
        if self._snapshot is None:
            return self._looking(self._recovered)
        snapshot = await self._snapshot()
        if snapshot is None:
            return self._looking(lambda: None)
        state = partial(decode_snapshot, snapshot, self._limits)
        return self._looking(state, time_of_snapshot(snapshot))

    async def rows(
        self,
        table: str,
        topic_id: TopicId | None,
        from_ms: int | None,
        after: str | None,
        limit: int,
    ) -> Rows:
        """Return decoded rows, of one topic or of all; messages of a topic from a time on.

        Raises `TopicNotFound` if there never was such a topic.
        """

        def look() -> Rows:
            looking = self._looking()
            start, stop = looking.range_of(table, topic_id, from_ms)
            rows, following = _part(looking, table, _from(after, start), stop, limit)
            if topic_id is not None and not rows and looking.topic(topic_id) is None:
                raise TopicNotFound(topic=str(topic_id))
            return Rows(rows=[row_facts(table, row) for row in rows], next=following)

        with self._alone():
            return await asyncio.to_thread(look)

    async def size(self, table: str, after: str | None, limit: int) -> Size:
        """Return the size of the next `limit` rows of a table."""

        def look() -> Size:
            looking = self._looking()
            rows, following = _part(looking, table, _from(after, b""), _END, limit)
            return Size(
                rows=len(rows),
                bytes=sum(len(key) + len(value) for key, value in rows),
                disk_bytes=self._store.size_bytes(table, b"", _END),
                next=following,
            )

        with self._alone():
            return await asyncio.to_thread(look)

    async def problems(
        self, checked: str, after: str | None, limit: int, *, is_cleaned: bool
    ) -> Problems:
        """Check the next rows of a table; `is_cleaned`: no row of a dead generation may remain."""
        with self._alone():
            return await self._problems(checked, after, limit, is_cleaned=is_cleaned)

    async def _problems(
        self, checked: str, after: str | None, limit: int, *, is_cleaned: bool
    ) -> Problems:
        if checked == _CACHE:
            if self._cache is None:
                return Problems(problems=[], rows=0)
            name = bytes.fromhex(after or "").decode(errors="replace")
            problems, count, last = await self._cache.problems(name, limit)
            following = None if last is None else last.encode().hex()
            return Problems(problems=problems, rows=count, next=following)
        first = await self._checked(checked, after, limit, is_cleaned=is_cleaned)
        if not first.problems or self._snapshot is None:
            return first
        await asyncio.sleep(_LOOK_AGAIN_S)
        again = await self._checked(checked, after, limit, is_cleaned=is_cleaned)
        lasting = [problem for problem in first.problems if problem in set(again.problems)]
        return replace(first, problems=lasting)

    async def _checked(
        self, checked: str, after: str | None, limit: int, *, is_cleaned: bool
    ) -> Problems:
        looking = await self._inspection()

        def check() -> Problems:
            if checked not in CHECKED_BY_ROW:
                return Problems(problems=looking.prepared(), rows=0)
            # Rows first, because the rows that a row needs are written before it or with it.
            rows, following = _part(looking, checked, _from(after, b""), _END, limit)
            looking.prepared()
            problems = list(looking.of_rows(checked, rows, is_cleaned=is_cleaned))
            return Problems(
                problems=problems,
                rows=len(rows),
                sealed=looking.sealed,
                without_payloads=looking.without_payloads,
                next=following,
            )

        return await asyncio.to_thread(check)

    async def bounds(self) -> Bounds:
        """Return how far invalid transactions are cleaned up, and what keeps their list long."""
        with self._alone():
            looking = await self._inspection()
            return await asyncio.to_thread(
                lambda: Bounds(bounds=looking.bounds(), invalid=looking.invalid())
            )

    async def explain(self, topic_id: TopicId, message_id: bytes) -> Facts:
        """Return the fields of an id, the entry stored under it, and why readers get it or not."""
        with self._alone():
            looking = await self._inspection()
            facts = await asyncio.to_thread(looking.explain, topic_id, message_id)
        if self._groups is not None:
            facts["said"] += await _explain_groups(self._groups, topic_id, message_id)
        return facts


async def _explain_groups(groups: GroupService, topic_id: TopicId, message_id: bytes) -> list[str]:
    """Return sentences on the state of a message in each group of its topic."""
    try:
        existing = await groups.groups(topic_id)
    except (TransactionsElsewhere, TopicNotFound):  # it is deleted, or has unknown settings
        return []
    return [await _explain_group(groups, group, message_id) for group in existing]


async def _explain_group(groups: GroupService, group: Group, message_id: bytes) -> str:
    before = (int.from_bytes(message_id) - 1).to_bytes(ID_BYTES) if any(message_id) else None
    after = await groups.open_messages(group.topic_id, group.name, after=before, limit=1)
    message = next((each for each in after if each.id == message_id), None)
    letter, is_handled = None, False
    with suppress(TopicNotFound):  # the topic of dead letters is deleted
        letter, is_handled = await groups.letter_of(group.topic_id, group.name, message_id) or (
            None,
            False,
        )
    where = "" if letter is None else f"{letter.id.hex()} of topic {group.settings.dead_letter}"
    if message is None:
        if letter is not None and is_handled:
            return f"In group {group.name} its dead letter was redriven or dropped: {where}."
        if letter is not None:
            origin = letter.origin
            because = f": {origin.reason}" if origin.reason else ""
            return (
                f"In group {group.name} it is dead: {where}, by {origin.disposition.value} after "
                f"{_attempts(origin.attempts)}{because}. It can be redriven."
            )
        through = group.state.through
        was_read = through is not None and message_id <= through
        passed = ", its filter passed it" if group.settings.filter else ""
        state = (
            f"not open: it is settled{passed}, or the group began after it"
            if was_read
            else "not read yet"
        )
        return f"In group {group.name} it is {state}."
    attempts = _attempts(message.attempts)
    holder = "" if message.last_member is None else f"; {message.last_member} held it last"
    reason = "" if message.reason is None else f"; the last one failed because: {message.reason}"
    again = f"; it was redriven after it was dead: {where}" if is_handled else ""
    state = f"it is open ({message.state}); {attempts} failed{holder}{reason}{again}"
    return f"In group {group.name} {state}."


def _attempts(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"


def _from(after: str | None, start: bytes) -> bytes:
    return start if after is None else max(start, bytes.fromhex(after))


def _part(
    looking: Verification, table: str, start: bytes, stop: bytes, limit: int
) -> tuple[list[Row], str | None]:
    """Return at most `limit` rows from `start` on, and the start of the next part."""
    rows: list[Row] = []
    size = 0
    for row in looking.rows(table, start, stop):
        rows.append(row)
        size += len(row[0]) + len(row[1])
        if len(rows) == limit or size >= _BYTES_MAX:
            return rows, (row[0] + b"\x00").hex()
    return rows, None
