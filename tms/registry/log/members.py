"""Elects a master without a metadata store: members announce themselves on a topic.

The oldest eligible member wins the election. A server is a member as long as the others see its
announcements, each within the session time of the one before. They use their own clocks, so no two
clocks are compared. A member that was silent for longer has left; when it returns it is the
youngest. Age is the id of its first message.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import msgspec

from tms.core.errors import TmsError, TopicExists, TopicNotFound
from tms.core.limits import MS_PER_S
from tms.core.runtime.clock import Clock
from tms.core.runtime.supervision import supervised
from tms.core.services.messaging import NO_ENTRIES
from tms.core.values.caller import REGISTRY, SYSTEM, Caller
from tms.core.values.frame import bodies_of
from tms.core.values.message import FIRST_ID, Message, id_after, tombstone
from tms.core.values.reading import Reading
from tms.core.values.topic import TopicId
from tms.core.values.topic_properties import CLEANUP, COMPACT
from tms.registry.log.mastership import Elected
from tms.registry.log.schema_log import WayToLog

MEMBERS_TOPIC = TopicId(SYSTEM, "_schemas_members")
PROPERTIES = {"ttl": 3600, CLEANUP: COMPACT}

_CALLER = Caller(part=REGISTRY)
_MEMBER_BYTES = 8
_PAGE_MESSAGES = 10_000
_log = logging.getLogger(__name__)


class Announcement(msgspec.Struct, frozen=True, omit_defaults=True):
    """The announcement of a member."""

    address: str
    eligible: bool = True
    joined: str | None = None
    """The id of its first message, in hexadecimal; None in that message itself."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A member when it was last seen."""

    announcement: Announcement
    joined: str
    at_ms: int
    """By this server's steady clock."""


def first_of(members: dict[str, Seen], now_ms: int, session_ms: float) -> str | None:
    """Return the master: the oldest live and eligible member."""
    living = [
        (seen.joined, name)
        for name, seen in members.items()
        if seen.announcement.eligible and now_ms - seen.at_ms <= session_ms
    ]
    return min(living)[1] if living else None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Announcement).decode


class MembersElection:
    """One member."""

    def __init__(
        self, way: WayToLog, announcement: Announcement, clock: Clock, *, session_s: float
    ) -> None:
        """Announce itself ten times per session, after `start`."""
        self._way = way
        self._announcement = announcement
        self._clock = clock
        self._session_ms = session_s * MS_PER_S
        self._pause_s = session_s / 10
        self._name = ""
        self._announced_ms: int | None = None
        self._position = NO_ENTRIES
        self._members: dict[str, Seen] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self, tell: Callable[[Elected], None]) -> None:
        """Take part, and report each change from now on."""
        self._task = supervised(
            "announcing itself to the registry's servers", partial(self._run, tell)
        )

    async def _run(self, tell: Callable[[Elected], None]) -> None:
        while True:
            try:
                with self._way.kept():
                    async with asyncio.timeout(self._session_ms / MS_PER_S):
                        await self._announce()
                        await self._read()
            except (TmsError, TimeoutError) as error:  # `supervised` logs the others
                _log.info("the topic of the members is unreachable: %s", error or "no answer")
            finally:
                tell(self._elected())
            await asyncio.sleep(self._pause_s)

    def _elected(self) -> Elected:
        now_ms = self._clock.steady_ms()
        if self._announced_ms is None or now_ms - self._announced_ms > self._session_ms:
            return Elected(None)  # The others have elected another member by now.
        first = first_of(self._members, now_ms, self._session_ms)
        if first is None:
            return Elected(None)
        return Elected(self._members[first].announcement.address, first == self._name)

    async def _announce(self) -> None:
        now_ms = self._clock.steady_ms()
        if self._announced_ms is None or now_ms - self._announced_ms > self._session_ms:
            await self._leave()
            self._name = secrets.token_hex(_MEMBER_BYTES)
            self._announcement = msgspec.structs.replace(self._announcement, joined=None)
        message = Message(_encode(self._announcement), self._name.encode())
        [message_id] = await self._publish(message)
        self._announced_ms = now_ms
        if self._announcement.joined is None:
            joined = message_id.hex()
            self._announcement = msgspec.structs.replace(self._announcement, joined=joined)

    async def _leave(self) -> None:
        """Announce that this server's former member, if any, has left."""
        if self._announced_ms is not None:
            await self._publish(tombstone(self._name.encode()))

    async def _publish(self, message: Message) -> list[bytes]:
        bodies = bodies_of([message.body()])
        messaging = self._way.messaging
        try:
            return [*await messaging.publish(MEMBERS_TOPIC, bodies, caller=_CALLER)]
        except TopicNotFound:
            self._position, self._members = NO_ENTRIES, {}
        with suppress(TopicExists):
            await messaging.create_topic(MEMBERS_TOPIC, PROPERTIES, caller=_CALLER)
        return [*await messaging.publish(MEMBERS_TOPIC, bodies, caller=_CALLER)]

    async def _read(self) -> None:
        """Read what members have announced since."""
        start = id_after(self._position) if self._position else FIRST_ID
        async for block in self._way.messaging.poll(MEMBERS_TOPIC, Reading(start, _PAGE_MESSAGES)):
            for message in block:
                self._position = message.id
                self._take(message)

    def _take(self, message: Message) -> None:
        name = (message.key or b"").decode(errors="replace")
        if message.is_tombstone:
            self._members.pop(name, None)
            return
        try:
            announcement = _decode(message.payload)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        joined = announcement.joined or message.id.hex()
        self._members[name] = Seen(announcement, joined, self._clock.steady_ms())

    def give_way(self) -> None:
        """Do nothing: the others notice a server that does not reach the topics."""

    async def close(self) -> None:
        """Leave, so that the others need not wait for a timeout."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(1.0):
                await self._leave()
        except (TmsError, TimeoutError) as error:
            _log.info("cannot tell the other members that this one leaves: %s", error)
