"""The log of schemas, a compact topic, and its content in memory.

1. A record is written only if this server has read all earlier records (`if_last`).
2. Memory changes only by what is read from the log, in order.
3. One read is in flight at a time. A request for the end waits for a read that started after it.
4. Memory that is too old is rebuilt from the beginning, because a tombstone may be gone.

It uses the messaging interface, in the process or remote.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from tenacity import AsyncRetrying, retry_if_exception_type, wait_exponential, wait_random

from tms.core.errors import (
    NoLeader,
    OutcomeUnknown,
    ServerSilent,
    TmsError,
    TooLarge,
    TopicExists,
    TopicMoved,
    TopicNotFound,
    Unavailable,
)
from tms.core.limits import MS_PER_S, TTL_S_MAX
from tms.core.runtime.clock import Clock
from tms.core.runtime.shared_work import shared
from tms.core.services.messaging import NO_ENTRIES, Messaging
from tms.core.values.caller import REGISTRY, Caller
from tms.core.values.frame import bodies_of
from tms.core.values.message import FIRST_ID, Message, MessageBlock, id_after
from tms.core.values.reading import Reading
from tms.core.values.topic import TopicId, TopicMetadata
from tms.core.values.topic_properties import CLEANUP, COMPACT, TOMBSTONE, TOMBSTONE_S_DEFAULT
from tms.registry.state.records import (
    SCHEMA,
    CountersWritten,
    Origin,
    Purged,
    Record,
    Unreadable,
    VersionLost,
    decode,
    encode,
)
from tms.registry.state.refusal import STORE_FAILED, TIMED_OUT, RegistryError
from tms.registry.state.registry_state import State

SCHEMAS_TOPIC = "_schemas"
"""The topic's default name, in the namespace `system`."""
REACHED_S_MAX = 10.0
"""How long a request waits for the log."""
PROPERTIES = {"ttl": TTL_S_MAX, CLEANUP: COMPACT}

_CALLER = Caller(part=REGISTRY)
_PAGE_MESSAGES = 10_000
_TOPIC_LOOKED_AT_MS = 60_000
"""The greatest age of cached facts about the topic itself."""
_NODE_BYTES = 8
_PAUSES_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
"""How often to check for what another server is about to have written."""

_log = logging.getLogger(__name__)
T = TypeVar("T")


class WayToLog:
    """Access to the log: by the service in this process, by the leader's, or none."""

    def __init__(self, messaging: Messaging | None = None) -> None:
        """Start with a service, or none."""
        self._messaging = messaging

    def attach(self, messaging: Messaging | None) -> None:
        """Use this service from now on; None for none."""
        self._messaging = messaging

    @property
    def messaging(self) -> Messaging:
        """The service. Raises `NoLeader` if there is none."""
        if self._messaging is None:
            raise NoLeader
        return self._messaging

    @contextmanager
    def kept(self) -> Iterator[Messaging]:
        """Yield the service; if it is replaced before the end, its error is `OutcomeUnknown`."""
        messaging = self.messaging
        try:
            yield messaging
        except TmsError:
            raise
        except Exception as error:
            if self._messaging is messaging:
                raise
            raise OutcomeUnknown(reason="the connection to the log has changed") from error


@dataclass(slots=True)
class LogMemory:
    """The records that were read, and the position."""

    state: State = field(default_factory=State)
    position: bytes = NO_ENTRIES
    """The id of the last entry read; `NO_ENTRIES` before the first."""

    def take(self, message: Message) -> Origin | None:
        """Apply a message; return the write that it comes from, None for a tombstone."""
        if message.id <= self.position:
            return None
        self.position = message.id
        try:
            entry = decode(message)
        except Unreadable as error:
            _log.error("skipping a message of the log that is not a valid record: %s", error)
            return None
        lost = entry.record
        if isinstance(lost, VersionLost):
            text = "version %d of the subject %r cannot be read, and is skipped: %s"
            _log.error(text, lost.version, lost.subject, lost.reason)
        self.state.take(entry)
        return entry.origin


@dataclass(frozen=True, slots=True)
class _Looked:
    """The facts about the topic when it was read."""

    topic: TopicMetadata | None
    """None if there was none."""
    at_ms: tuple[int, int]


class SchemaLog:
    """The log and its memory. Used only on one event loop."""

    def __init__(self, way: WayToLog, topic_id: TopicId, clock: Clock) -> None:
        """Read nothing yet."""
        self.memory = LogMemory()
        self.topic_id = topic_id
        self.readings = 0
        """How often it was read to its end."""
        self.refused = 0
        """Writes that were preceded by another server's."""
        self._way = way
        self._clock = clock
        self._node = _new_node()
        self._begun = self._ended = 0
        self._reading: asyncio.Task[None] | None = None
        self._read_ms: tuple[int, int] | None = None
        """When the last read to the end started; None before the first."""
        self._looked: _Looked | None = None
        self._awaited: Origin | None = None
        """The write that may be in the log, as far as is known."""
        self._found_awaited = False

    # Reading.

    async def read_to_end(self) -> None:
        """Return once memory has everything that was in the log at the time of the call.

        Raises `RegistryError` (50001, 50002).
        """
        number = self._begun + 1
        while self._ended < number:
            if self._reading is None:
                self._reading = asyncio.create_task(self._read())
            await shared(self._reading)

    async def _read(self) -> None:
        self._begun = number = self._begun + 1
        try:
            async with _in_time():
                await _until_reached(self._read_once)
            self._ended = number
            self.readings += 1
        finally:
            self._reading = None

    async def _read_once(self) -> None:
        began = self._now()
        with self._way.kept() as messaging:
            memory = self.memory if await self._is_current(messaging) else LogMemory()
            try:
                while await self._read_page(messaging, memory) == _PAGE_MESSAGES:
                    pass
            except TopicNotFound:
                memory, self._looked = LogMemory(), None
        self.memory, self._read_ms = memory, began

    async def _read_page(self, messaging: Messaging, memory: LogMemory) -> int:
        """Apply the page after memory's position; return how many messages it had."""
        position = memory.position
        start = id_after(position) if position else FIRST_ID
        count = 0
        async for block in messaging.poll(self.topic_id, Reading(start, _PAGE_MESSAGES)):
            self._take(memory, block)
            count += block.count
            await asyncio.sleep(0)
        return count

    def _take(self, memory: LogMemory, block: MessageBlock) -> None:
        for message in block:
            origin = memory.take(message)
            if origin is not None and origin == self._awaited:
                self._found_awaited = True

    async def _is_current(self, messaging: Messaging) -> bool:
        """Whether memory is young enough to continue from, and of the present topic."""
        looked = self._looked
        if looked is None or not looked.topic or self._since(looked.at_ms) > _TOPIC_LOOKED_AT_MS:
            looked = _Looked(await self._topic(messaging), self._now())
        before, self._looked = self._looked, looked
        if looked.topic is None or self._read_ms is None:
            return False
        generation = None if before is None or before.topic is None else before.topic.generation
        if generation != looked.topic.generation:
            return False
        tombstone_s = int(looked.topic.properties.get(TOMBSTONE, TOMBSTONE_S_DEFAULT))
        return self._since(self._read_ms) <= tombstone_s * MS_PER_S // 2

    async def _topic(self, messaging: Messaging) -> TopicMetadata | None:
        try:
            topic = await messaging.topic(self.topic_id)
        except TopicNotFound:
            return None
        if not topic.is_compact:
            _log.warning(
                "the topic %s of schemas is not compact, so it will keep growing", self.topic_id
            )
        return topic

    def _now(self) -> tuple[int, int]:
        return self._clock.now_ms(), self._clock.steady_ms()

    def _since(self, then: tuple[int, int]) -> int:
        """Return the ms since a moment, even if the clock was set or the machine suspended."""
        return max(now - before for now, before in zip(self._now(), then, strict=True))

    async def catch_up(self, memory: LogMemory, moved: TopicMoved) -> None:
        """Read what comes after `memory`, which may soon be on disk.

        If nothing comes, the log is not the one that was read: read it from the beginning.
        """
        position = memory.position
        last = bytes.fromhex(moved.detail.get("last_id") or "")
        for pause_s in _PAUSES_S if last > position else ():
            await self.read_to_end()
            if self.memory is not memory or memory.position >= last:
                return
            await asyncio.sleep(pause_s)
        if self.memory is memory and memory.position == position:
            self._read_ms = None
            await self.read_to_end()

    # Writing.

    async def append(self, records: Sequence[Record | Purged], memory: LogMemory) -> None:
        """Append records after everything in memory, and apply them; counters with tombstones.

        All or none; one caller at a time. Raises `TopicMoved` if there is more in the log,
        `TooLarge` if these are too many at once, `RegistryError` (50001, 50002); after 50002 they
        may be written or not.
        """
        records = _with_counters(records, memory.state)
        messages, origin = self._encoded(records, memory.state.last_sequence)
        bodies = bodies_of([message.body() for message in messages])
        position = memory.position
        self._awaited, self._found_awaited = origin, False
        try:
            async with _in_time():
                ids = await self._publish(bodies, memory)
        except TopicMoved:
            self.refused += 1
            raise
        except BaseException:
            self._node = _new_node()  # so that errors from here on belong to this caller only
            raise
        finally:
            self._awaited = None
        if memory is not self.memory or memory.position != position or len(ids) != len(messages):
            await self.read_to_end()
            return
        for message, message_id in zip(messages, ids, strict=True):
            memory.take(message._replace(id=message_id))

    def _encoded(
        self, records: Sequence[Record | Purged], sequence: int
    ) -> tuple[list[Message], Origin]:
        """Return the messages of records, and the origin of the last one except tombstones."""
        messages = []
        for record in records:
            if not isinstance(record, Purged):
                sequence += 1
            messages.append(encode(record, Origin(sequence, self._node)))
        return messages, Origin(sequence, self._node)

    async def _publish(self, bodies: list[bytes], memory: LogMemory) -> Sequence[bytes]:
        """Return the ids; none if only a later read showed that they were written."""
        is_unknown = False
        position = memory.position

        async def publish() -> Sequence[bytes]:
            nonlocal is_unknown
            try:
                with self._way.kept() as messaging:
                    return await messaging.publish(
                        self.topic_id, bodies, if_last=position, caller=_CALLER
                    )
            except (OutcomeUnknown, ServerSilent):
                is_unknown = True
                raise
            except TopicNotFound:
                await self._create(self._way.messaging)
                return await publish()
            except TopicMoved as moved:
                if not is_unknown:
                    raise
                await self.catch_up(memory, moved)
                if self._found_awaited:
                    return ()
                raise

        return await _until_reached(publish)

    async def _create(self, messaging: Messaging) -> None:
        try:
            await messaging.create_topic(self.topic_id, PROPERTIES, caller=_CALLER)
        except TopicExists:
            return
        self._looked = _Looked(await self._topic(messaging), self._now())
        _log.info("created the schema topic %s", self.topic_id)


def _with_counters(records: Sequence[Record | Purged], state: State) -> Sequence[Record | Purged]:
    """Return records, with the counters if a schema goes or if all are tombstones.

    So no id is reused, and each write has an origin that identifies it.
    """
    gone = [record.key.keytype == SCHEMA for record in records if isinstance(record, Purged)]
    is_counted = any(isinstance(record, CountersWritten) for record in records)
    is_wanted = any(gone) or (gone and len(gone) == len(records))
    return [*records, state.counters()] if is_wanted and not is_counted else records


def _new_node() -> str:
    return secrets.token_hex(_NODE_BYTES)


@asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    """Limit the wait for the log, and raise its errors as the registry's."""
    try:
        async with asyncio.timeout(REACHED_S_MAX):
            yield
    except TimeoutError:
        raise RegistryError(TIMED_OUT, reason=f"it took over {REACHED_S_MAX:g} s") from None
    except (TopicMoved, TooLarge):
        raise
    except TmsError as error:
        _log.error("cannot use the log of schemas: %s", error)
        raise RegistryError(STORE_FAILED, reason=str(error)) from error


async def _until_reached(call: Callable[[], Awaitable[T]]) -> T:
    """Return the result of a call, repeated while the service or topic does not exist."""
    attempts = AsyncRetrying(
        retry=retry_if_exception_type((Unavailable, OutcomeUnknown, ServerSilent)),
        wait=wait_exponential(multiplier=0.02, max=0.5) + wait_random(0, 0.02),
    )
    return await attempts(call)
