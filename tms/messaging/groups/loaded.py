"""Keeps the groups in use in memory, and makes their changes durable.

1. A group is read from its table when it is first used, and stays in memory while it is used. It
   holds its topic's state, so it notices if the topic's generation changes.
2. Its edits since the last flush are one row of the next flush; edits of takes alone request a
   flush soon. So no settlement is on disk without the reads and takes before it.
3. After a failed flush, all groups are read again, once the store accepts writes.
4. A snapshot has the state after a row that is in a flush. A thread writes it, concurrently with
   later flushes, and then deletes the rows before it.

Used from the event loop's thread alone.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from tms.core.errors import Stopping, StoreUnavailable, TmsError
from tms.core.runtime.clock import SessionTime
from tms.core.runtime.shared_work import shared
from tms.core.runtime.shares import share_of
from tms.core.services.group_commit import Participant, Write
from tms.core.values.batch import Batch
from tms.core.values.group_settings import OPEN_MAX, Order
from tms.core.values.message import first_id_at
from tms.core.values.store_access import StoreAccess
from tms.core.values.topic import TopicId
from tms.messaging.groups.commands import GroupCommands
from tms.messaging.groups.counts import CountsByGroup
from tms.messaging.groups.edits import decode_row
from tms.messaging.groups.heartbeat import Heartbeat
from tms.messaging.groups.loaded_group import GroupLeftMemory, LoadedGroup
from tms.messaging.groups.snapshots import Frozen, decode_snapshot, encode_snapshot, freeze
from tms.messaging.store_runtime import StoreRuntime
from tms.messaging.subscriptions import SubscriptionService

if TYPE_CHECKING:
    from tables.group_table import StoredGroup

Attend = Callable[["LoadedGroups", LoadedGroup], Coroutine[Any, Any, None]]
"""Writes dead letters."""
IDLE_S: Final = 60.0
_SNAPSHOT_ROWS: Final = 10_000
_SNAPSHOT_IDS: Final = 100_000
_SNAPSHOT_BYTES_MIN: Final = 256 * 1024
_DROP_ROWS: Final = 1_000
_EXPIRED_MAX: Final = 10_000
_FLUSH_S: Final = 0.02
_FLUSH_S_ELSEWHERE: Final = 0.1

_log = logging.getLogger(__name__)


class HeldGroup:
    """Keeps a group in memory while it is used. A generator would make takes a tenth slower."""

    __slots__ = ("_group", "_groups", "_place")

    def __init__(self, groups: "LoadedGroups", topic_id: TopicId, name: str) -> None:
        self._groups = groups
        self._place = topic_id, name
        self._group: LoadedGroup | None = None

    async def __aenter__(self) -> LoadedGroup:
        group = self._group = await self._groups.find(*self._place)
        group.in_use += 1
        return group

    async def __aexit__(self, *_: object) -> None:
        assert self._group is not None
        self._group.in_use -= 1
        self._group.used_s = monotonic()


class _NoRows(Write):
    """Requests a flush."""

    size_bytes = 0

    def add_rows(self, batch: Batch, now_ms: int) -> None:
        """Add nothing: the groups add their own rows."""


class LoadedGroups(Participant):
    """The groups in use; they take part in each flush."""

    def __init__(
        self, engine: StoreRuntime, subscriptions: SubscriptionService, attend: Attend
    ) -> None:
        """Call `attend` for groups with dying messages, once at a time for each group."""
        self._attend = attend
        self._engine = engine
        self._subscriptions = subscriptions
        self._table = engine.tables.groups
        self._loop = asyncio.get_running_loop()
        self._groups: dict[tuple[TopicId, str], LoadedGroup] = {}
        self._loading: dict[tuple[TopicId, str], asyncio.Task[LoadedGroup]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._changed: set[LoadedGroup] = set()
        """Groups with edits that are not in a flush yet."""
        self._in_flush: set[LoadedGroup] = set()
        """Groups with edits in the running flush."""
        self.short_of_room: dict[LoadedGroup, None] = {}
        """Groups whose takes wait because of `groups_open_max`, in the order of their reads."""
        self._is_reading = engine.access is StoreAccess.READ
        self._flush_s = _FLUSH_S if engine.tables.is_embedded else _FLUSH_S_ELSEWHERE
        self._flush_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._has_joined = False
        self._last_number = 0
        """The highest number of a delivery, among all groups that have left memory."""
        self._heartbeat = Heartbeat(engine.clock)
        self.time = SessionTime(engine.clock)
        self.counts = CountsByGroup(engine.limits.metric_series_max)
        engine.metrics.include(self.counts)
        engine.metrics.memory.show("groups", lambda: len(self._groups))

    @property
    def loaded(self) -> list[LoadedGroup]:
        """The groups in memory."""
        return list(self._groups.values())

    @property
    def names(self) -> set[tuple[TopicId, str]]:
        """The names of the groups in memory."""
        return set(self._groups)

    @property
    def open_count(self) -> int:
        """How many messages are open in all groups in memory."""
        return sum([len(group.commands.state.open) for group in self._groups.values()])

    def room(self, group: LoadedGroup) -> int:
        """Return how many more messages a group may open."""
        mine = len(group.commands.state.open)
        share = share_of(self._engine.limits.groups_open_max, mine, self.open_count - mine)
        return max(0, min(share, group.commands.settings.open_max - mine))

    async def find(self, topic_id: TopicId, name: str) -> LoadedGroup:
        """Return a group, loaded if it is not yet; `HeldGroup` keeps it in memory.

        Raises `TopicNotFound`, `SubscriptionNotFound`, `SubscriptionIsSingle`, `StoreUnavailable`,
        `Stopping`.
        """
        while True:
            self.check_open()
            group = self._groups.get((topic_id, name))
            if group is None or group.is_dropped or group.state.gone or group.state.stale:
                if group is not None:
                    self.drop(group)
                return await self._load(topic_id, name)
            if group.ending is None:
                return group
            await shared(group.ending)  # then it is deleted, or read again

    def check_open(self) -> None:
        """Raise `Stopping` if a take would no longer be written."""
        if self._is_closed:
            raise Stopping

    async def _load(self, topic_id: TopicId, name: str) -> LoadedGroup:
        place = (topic_id, name)
        task = self._loading.get(place)
        if task is None:
            task = self._loading[place] = self.start(self._read(topic_id, name))
            task.add_done_callback(lambda _: self._loading.pop(place, None))
        try:
            return await shared(task)
        finally:
            del task  # its error keeps this frame, which must not keep the task

    async def _read(self, topic_id: TopicId, name: str) -> LoadedGroup:
        """Return a group, read from its table."""
        engine = self._engine
        if not self._has_joined:  # a server without groups does nothing for them in a flush
            engine.writer.join(self)
            self._has_joined = True
        self._make_room()
        async with self._subscriptions.held((topic_id,)) as [positions]:
            row = positions.group(name)
            row.check_known()
            if not self._is_reading:
                engine.tables.check_writable()
            state = positions.state
            now_ms = self.time.now_ms()
            by_key = row.settings.order is Order.KEY
            counts = self.counts.begin(topic_id, name, row.created)

            def read() -> tuple[GroupCommands, "StoredGroup"]:
                stored = self._table.read(state.prefix, name, row.created)
                messages = decode_snapshot(stored.snapshot, now_ms, by_key=by_key)
                edit_ids = 0
                for edits in stored.rows:
                    for edit in decode_row(edits, by_key=by_key):
                        messages.apply(edit, now_ms)
                        edit_ids += len(edit.ids)
                commands = GroupCommands(messages, row.settings, now_ms, self._last_number, counts)
                commands.edit_ids = edit_ids
                log = stored.log
                if not log.is_own:
                    log.put_snapshot(log.next_number, encode_snapshot(freeze(messages)))
                return commands, stored

            commands, stored = await engine.threads.read(read)
            if state.gone:  # later requests wait for this load too, perhaps for a new group
                raise GroupLeftMemory
            group = LoadedGroup(state, positions, row, commands, stored.log)
            group.check_current()
            commands.settings = group.shared.settings
            group.rows, group.snapshot_bytes = len(stored.rows), len(stored.snapshot)
            group.row_bytes = sum(map(len, stored.rows))
            engine.states.hold(state)
        self._groups[topic_id, name] = group
        self._heartbeat.start()
        state.on_retired[group] = self.drop
        group.used_s = monotonic()
        self.arm(group)
        self.attend(group)
        if self._idle_timer is None:
            self._idle_timer = self._loop.call_later(IDLE_S, self._look_for_idle)
        return group

    def _make_room(self) -> None:
        """Drop idle groups if too many are in memory. Raises `StoreUnavailable`."""
        groups_max = self._engine.limits.topics_in_memory_max
        if len(self._groups) >= groups_max:
            self._drop_idle(0)
            if len(self._groups) >= groups_max:
                raise StoreUnavailable(reason="too many groups are in use")

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task that ends when the groups close."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def drop(self, group: LoadedGroup) -> None:
        """Forget a group; waiting takes look it up again."""
        if group.is_dropped:
            return
        group.is_dropped = True
        self._last_number = max(self._last_number, group.commands.state.last_delivery)
        place = (group.state.topic.id, group.name)
        if self._groups.get(place) is group:
            del self._groups[place]
        self._changed.discard(group)
        self.short_of_room.pop(group, None)
        if self.short_of_room:
            self._come_back_soon()
        self.counts.end(group.commands.counts)
        if group.state.gone or group.ending is not None:
            self.counts.forget(*place)
        for timer in (group.timer, group.burial_timer):
            if timer is not None:
                timer.cancel()
        group.state.on_retired.pop(group, None)
        self._engine.states.release(group.state)
        for take in group.waiting:
            if not take.served.done():
                take.served.set_result(None)
        group.waiting.clear()
        group.ring()
        if group.ending is not None and not group.ending.done():
            group.ending.set_result(None)

    def end(self, group: LoadedGroup) -> None:
        """Mark a group as being deleted by a flush; write no more of its edits."""
        group.ending = self._loop.create_future()
        self._changed.discard(group)

    # -- edits

    def edited(self, group: LoadedGroup) -> None:
        """Schedule a group's edits for the next flush, and request one soon."""
        is_over = group.is_dropped or group.ending is not None
        if is_over or self._is_reading or not group.commands.has_edits:
            return
        self._changed.add(group)
        self._arm(group, group.commands.state.next_change_ms())
        if group.commands.has_deaths:
            self.attend(group)
        self._come_back_soon()

    def _come_back_soon(self) -> None:
        if self._flush_timer is None and not self._is_closed:
            self._flush_timer = self._loop.call_later(self._flush_s, self._flush_soon)

    def attend(self, group: LoadedGroup) -> None:
        """Start to write dying messages, or to pause a group in which too many die."""
        commands = group.commands
        is_needed = commands.state.dying or commands.deaths.is_over
        if not is_needed or self._is_reading or self._is_closed:
            return
        if group.burying is None and group.burial_timer is None:
            group.burying = self.start(self._attended(group))

    async def _attended(self, group: LoadedGroup) -> None:
        group.in_use += 1
        try:
            await self._attend(self, group)
        finally:
            group.in_use -= 1
            group.burying = None

    def attend_later(self, group: LoadedGroup, delay_s: float) -> None:
        """Call `attend` again after a delay."""

        def again() -> None:
            group.burial_timer = None
            self.attend(group)

        if not group.is_dropped:
            group.burial_timer = self._loop.call_later(delay_s, again)

    def ring_next(self) -> None:
        """Wake the waiting takes of one group that has room again.

        Their task calls this again after it has served them, so room for one message does not wake
        all groups.
        """
        if not self.short_of_room:
            return
        open_max, open_count = self._engine.limits.groups_open_max, self.open_count
        for group in self.short_of_room:
            mine = len(group.commands.state.open)
            if share_of(open_max, mine, open_count - mine):
                del self.short_of_room[group]
                group.ring()
                return

    def _flush_soon(self) -> None:
        self._flush_timer = None
        self.ring_next()
        if self._changed:
            with suppress(TmsError):
                self._engine.writer.submit(_NoRows(), goes_on=True).add_done_callback(_ignore)

    def add_rows(self, batch: Batch) -> None:
        """Add one row for each group that has edits."""
        for group in self._changed:
            row = group.commands.take_row()
            if row is None:
                continue
            group.log.append(batch, row)
            group.rows += 1
            group.row_bytes += len(row)
            bytes_max = max(_SNAPSHOT_BYTES_MIN, 2 * group.snapshot_bytes)
            is_due = (
                group.rows >= _SNAPSHOT_ROWS
                or group.row_bytes >= bytes_max
                or group.commands.edit_ids >= max(_SNAPSHOT_IDS, 2 * len(group.commands.state.open))
            )
            if is_due and group.snapshotting is None and group.frozen is None:
                group.frozen = group.log.next_number, freeze(group.commands.state)
                group.rows = group.row_bytes = group.commands.edit_ids = 0
        self._in_flush, self._changed = self._changed, set()

    def after_flush(self) -> None:
        """Write the snapshots whose rows have become durable, and wake takes that wait for room."""
        self._in_flush.clear()
        self.ring_next()
        for group in self._groups.values():
            if group.frozen is not None and group.snapshotting is None and not group.is_kept_still:
                number, frozen = group.frozen
                group.frozen = None
                group.snapshotting = self.start(self._write_snapshot(group, number, frozen))

    def flush_failed(self) -> None:
        """Drop all groups: a failed write may be in the store or not."""
        self._in_flush.clear()
        for group in self.loaded:
            self.drop(group)

    async def _write_snapshot(self, group: LoadedGroup, number: int, frozen: Frozen) -> None:
        threads, log = self._engine.threads, group.log
        try:
            data = await asyncio.to_thread(encode_snapshot, frozen)
            group.snapshot_bytes = len(data)
            await threads.write(log.put_snapshot, number, data)
            dropped = 1
            while dropped and not group.is_dropped:
                dropped = await threads.write(log.drop, _DROP_ROWS)
        except TmsError as error:
            _log.warning("cannot write the snapshot of group %s: %s", group.name, error)
        finally:
            group.snapshotting = None

    # -- time

    def arm(self, group: LoadedGroup) -> None:
        """Set the timer for the next end of a lease or of a wait, one for the rate included."""
        commands = group.commands
        self._arm(group, commands.pace.next_ms(commands.state.next_change_ms()))

    def _arm(self, group: LoadedGroup, at_ms: int | None) -> None:
        """Set the timer, unless it is set for an earlier time."""
        if (
            at_ms is None
            or group.is_dropped
            or (group.timer is not None and group.timer_ms <= at_ms)
        ):
            return
        if group.timer is not None:
            group.timer.cancel()
        group.timer_ms = at_ms
        delay_s = max(0, at_ms - self.time.now_ms()) / 1000
        group.timer = self._loop.call_later(delay_s, self._on_timer, group)

    def end_leases(self, group: LoadedGroup) -> None:
        """Fail the messages whose leases have ended.

        A standstill of this process ends no lease: it could not receive what members sent.
        """
        now_ms = self.time.now_ms()
        if self._heartbeat.stood_still():
            for loaded in self._groups.values():
                loaded.commands.restart_leases(now_ms)
        if group.commands.end_leases(now_ms):
            self.edited(group)

    def expire(self, group: LoadedGroup) -> bool:
        """Settle up to `_EXPIRED_MAX` expired and trimmed messages; return whether any were."""
        oldest = first_id_at(group.state.topic.first_live_ms(self._engine.clock.deletion_ms()))
        has_any = group.commands.expire(oldest, _EXPIRED_MAX, self.time.now_ms())
        if has_any:
            self.edited(group)
        return has_any

    async def expire_all(self, group: LoadedGroup) -> None:
        """Settle all expired and trimmed messages."""
        for _ in range(0, OPEN_MAX, _EXPIRED_MAX):
            if not self.expire(group):
                return
            await asyncio.sleep(0)

    def _on_timer(self, group: LoadedGroup) -> None:
        group.timer = None
        try:
            self.end_leases(group)
            now_ms = self.time.now_ms()
            group.commands.state.make_due(now_ms)
            group.commands.pace.pass_to(now_ms)
            group.ring()
        finally:
            self.arm(group)

    def _look_for_idle(self) -> None:
        self._idle_timer = None
        for group in self.loaded:
            group.ahead.forget()
        self._drop_idle(IDLE_S)
        if not self._groups:
            self._heartbeat.stop()
        if self._groups and not self._is_closed:
            self._idle_timer = self._loop.call_later(IDLE_S, self._look_for_idle)

    def _drop_idle(self, idle_s: float) -> None:
        """Forget groups that have not been used for `idle_s`."""
        before = monotonic() - idle_s
        for group in self.loaded:
            is_used = group.in_use or group.waiting or group.snapshotting or group.burial_timer
            # Read again now, it would lack the changes of the running flush.
            is_in_flush = group in self._in_flush or group.ending is not None
            commands = group.commands
            is_busy = commands.state.deliveries or commands.has_edits or group in self._changed
            if not is_used and group.used_s <= before and not (is_busy or is_in_flush):
                self.drop(group)

    async def close(self) -> None:
        """Write the remaining edits, and forget all groups; the writer must still be open."""
        self._is_closed = True
        if self._changed:
            with suppress(TmsError):
                await self._engine.writer.submit(_NoRows(), goes_on=True)
        for group in self.loaded:
            self.drop(group)
        self._heartbeat.stop()
        for timer in (self._flush_timer, self._idle_timer):
            if timer is not None:
                timer.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _ignore(answer: "asyncio.Future[Any]") -> None:
    if not answer.cancelled():
        answer.exception()
