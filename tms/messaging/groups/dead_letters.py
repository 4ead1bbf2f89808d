"""The dead letters of a group: creates their topic, and lists, redrives and drops them.

A dead letter stays in its topic until it expires there. The group records which ones are *handled*,
that is redriven or dropped: all up to an id (`OpenMessages.redriven`), and some later ones. So a
dead letter is handled once. Dead letters of other groups in the same topic are ignored.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from tms.core.errors import InvalidRequest, TooLarge, TopicExists, TopicNotFound, Unavailable
from tms.core.limits import MS_PER_S
from tms.core.services.commits import Carried, CarryAgain, JointWrite
from tms.core.values.batch import Batch
from tms.core.values.dead_letters import DeadLetter, created_of, dead_letter_of, default_topic
from tms.core.values.group_settings import GroupSettings
from tms.core.values.groups import REDRIVEN_MAX, DeadLetters, LimitedBy, Redriven
from tms.core.values.message import (
    FIRST_ID,
    Message,
    first_id_at,
    id_after,
    id_before,
    published_ms,
)
from tms.core.values.reading import Isolation, Reading
from tms.core.values.subscriptions import SharedSubscription
from tms.core.values.topic import TTL, TopicId, parse_ttl
from tms.messaging.groups.burial import check_takes_dead_letters, publication
from tms.messaging.groups.feed import ReadPage, digest_of, read_bodies
from tms.messaging.groups.loaded import LoadedGroups
from tms.messaging.groups.loaded_group import GroupLeftMemory, LoadedGroup
from tms.messaging.mark import HIGH_AHEAD_US
from tms.messaging.subscriptions import SubscriptionService
from tms.messaging.topics import Topics
from tms.messaging.write_requests import Writing

_SCANNED_MAX: Final = 10_000
_EXPLAINED_MAX: Final = 100_000
_HANDLED_MAX: Final = 10_000
_BYTES_MAX: Final = 4 * 1024 * 1024
_CHAIN_MAX: Final = 100
_PAGE: Final = 100
_US_PER_MS: Final = 1_000


class Handling(Carried):
    """Marks dead letters as handled, and reopens messages of theirs."""

    size_bytes = 200

    def __init__(
        self,
        group: LoadedGroup,
        groups: LoadedGroups,
        redriven: bytes | None,
        letters: Sequence[bytes],
        messages: Mapping[bytes, bytes],
    ) -> None:
        self._group = group
        self._groups = groups
        self._redriven = redriven
        self._letters = letters
        self._messages = messages

    def check(self, write_pointers: Collection[int]) -> None:  # noqa: ARG002
        """Raise `CarryAgain` if one of them was handled in between, or the group has less room."""
        self._group.check_current()
        if any(map(self._group.commands.state.is_handled, self._letters)):
            raise CarryAgain(reason="a dead letter was handled by another request")
        if self._messages and len(self._messages) > self._groups.room(self._group):
            raise CarryAgain(reason="the group has opened other messages")

    def add_rows(self, batch: Batch, now_ms: int) -> None:  # noqa: ARG002
        """Apply the change; `LoadedGroups` adds the group's row."""
        now_ms, commands = self._groups.time.now_ms(), self._group.commands
        redriven = max(filter(None, (self._redriven, commands.state.redriven)), default=None)
        commands.reopen(redriven, self._letters, self._messages, now_ms)
        self._groups.edited(self._group)

    def on_durable(self) -> None:
        """Wake the waiting takes: messages were reopened."""
        self._group.ring()


class _Scan(NamedTuple):
    """Dead letters of one group, read from their topic."""

    letters: Sequence[DeadLetter]
    last: bytes | None
    """The last id that was read."""
    scanned: int
    """How many messages were read."""
    is_over: bool
    """Whether the end of the topic was reached."""


class DeadLetterService:
    """The dead letters of the groups of one store."""

    def __init__(
        self,
        writing: Writing,
        topics: Topics,
        subscriptions: SubscriptionService,
        groups: LoadedGroups,
        read: ReadPage,
    ) -> None:
        self._writing = writing
        self._states = writing.engine.states
        self._writer = writing.engine.writer
        self._topics = topics
        self._subscriptions = subscriptions
        self._groups = groups
        self._read = read

    # -- their topic

    async def prepared(self, topic_id: TopicId, settings: GroupSettings) -> GroupSettings:
        """Return settings with their topic of dead letters, which is created if none is named.

        Its messages then live as long as those of the group's topic, or longer.
        Raises `InvalidRequest` (invalid_group), `TopicNotFound`.
        """
        if not settings.dead_letter:
            if not settings.attempts_max:
                return settings
            dead = default_topic(topic_id)
            async with self._states.held((topic_id,)) as [state]:
                ttl_s = parse_ttl(state.topic.all_properties()[TTL])
            admitted, longer = self._topics.admission.properties, None
            with suppress(InvalidRequest):  # over a later limit of the namespace
                if ttl_s > admitted(topic_id.namespace, None)[0]:
                    admitted(topic_id.namespace, {TTL: ttl_s})
                    longer = {TTL: ttl_s}
            with suppress(TopicExists):
                await self._topics.create(dead, longer)
            settings = replace(settings, dead_letter=dead.name)
        dead = TopicId(topic_id.namespace, settings.dead_letter)
        async with self._states.held((dead,)) as [state]:
            check_takes_dead_letters(state.topic)
        await self._check_chain(topic_id, dead)
        return settings

    async def _check_chain(self, topic_id: TopicId, dead: TopicId) -> None:
        """Raise `InvalidRequest` if dead letters would return to the group's own topic."""
        next_ones, seen = [dead], {dead}
        while next_ones and topic_id not in seen and len(seen) <= _CHAIN_MAX:
            with suppress(TopicNotFound):
                async with self._subscriptions.held((next_ones.pop(),)) as [positions]:
                    for position in positions.durable.values():
                        if (
                            isinstance(position, SharedSubscription)
                            and position.settings.dead_letter
                        ):
                            following = TopicId(dead.namespace, position.settings.dead_letter)
                            next_ones += [following] if following not in seen else []
                            seen.add(following)
        if topic_id in seen:
            raise InvalidRequest(
                "invalid_group",
                dead_letter=dead.name,
                reason=f"its messages would come back to {topic_id.name}",
            )

    # -- list, redrive, drop

    async def listed(self, group: LoadedGroup, after: bytes | None, limit: int) -> DeadLetters:
        """Return unhandled dead letters after the id `after`."""
        if not group.commands.settings.dead_letter:
            return DeadLetters((), None)
        scan = await self._scan(group, after, limit)
        return DeadLetters(scan.letters, None if scan.is_over else scan.last)

    async def letter_of(
        self, group: LoadedGroup, message_id: bytes
    ) -> tuple[DeadLetter, bool] | None:
        """Return the last dead letter of a message, and whether it is handled; None without one.

        It is looked for among the first messages after the one that died.
        """
        found = None
        if not group.commands.settings.dead_letter:
            return None
        position: bytes | None = first_id_at(max(0, published_ms(message_id) - MS_PER_S))
        scanned = 0
        async with self._states.held((self._topic_of(group),)) as [state]:
            while position is not None and scanned < _EXPLAINED_MAX:
                page = await self._read(state, Reading(position, _PAGE, Isolation.COMMITTED))
                for message in (message for block in page.blocks for message in block):
                    letter = _letter(group, message)
                    if letter is not None and letter.origin.id == message_id:
                        found = letter, group.commands.state.is_handled(letter.id)
                scanned += page.count
                position = page.next_position
        return found

    async def redrive(
        self,
        group: LoadedGroup,
        ids: Sequence[bytes] | None,
        after: bytes | None,
        limit: int,
        *,
        publish: bool,
    ) -> Redriven:
        """Reopen the messages of dead letters, or publish them again.

        Without `ids` these are the first `limit` after the id `after` that have not expired. Raises
        `TooLarge` (too_many_open).
        """
        if ids is not None:
            done = await self._redrive_these(group, ids, publish=publish)
        else:
            limit = min(limit, REDRIVEN_MAX)
            done = await self._redrive_oldest(group, after, limit, publish=publish)
        if done.redriven or done.limited_by is None:
            return done
        if done.limited_by is LimitedBy.OPEN_MAX:
            raise TooLarge("too_many_open", open_max=group.commands.settings.open_max)
        limits = self._writing.engine.limits
        raise TooLarge("too_many_open", groups_open_max=limits.groups_open_max)

    async def _redrive_these(
        self, group: LoadedGroup, ids: Sequence[bytes], *, publish: bool
    ) -> Redriven:
        count = 0
        expired: list[bytes] = []
        async for letters in self._in_parts(group, ids):
            part = await self._redrive(group, letters, publish=publish)
            count += part.redriven
            expired += part.expired
            if part.limited_by is not None:
                return Redriven(count, expired, None, part.limited_by)
        return Redriven(count, expired)

    async def _redrive_oldest(
        self, group: LoadedGroup, after: bytes | None, limit: int, *, publish: bool
    ) -> Redriven:
        """Return what was done even if the rest fails: a repetition would redrive others."""
        count = scanned = 0
        expired: list[bytes] = []
        while count < limit and scanned < _SCANNED_MAX:
            try:
                scan = await self._scan(group, after, limit - count)
                part = await self._redrive(group, scan.letters, publish=publish)
            except (Unavailable, GroupLeftMemory):
                if count:
                    break
                raise
            count += part.redriven
            expired += part.expired
            if part.limited_by is not None:
                return Redriven(count, expired, part.next, part.limited_by)
            if scan.is_over:
                return Redriven(count, expired)
            after, scanned = scan.last, scanned + scan.scanned
        return Redriven(count, expired, after)

    async def _redrive(
        self, group: LoadedGroup, letters: Sequence[DeadLetter], *, publish: bool
    ) -> Redriven:
        if publish:
            return Redriven(await self._handle(group, letters, {}, publishes=True), ())
        messages = await self._messages_of(group, letters)
        there = [letter for letter in letters if letter.origin.id in messages]
        expired = [letter.id for letter in letters if letter.origin.id not in messages]
        count = await self._handle(group, there, messages)
        state = group.commands.state
        rest = next((each.id for each in there if not state.is_handled(each.id)), None)
        if rest is None:
            return Redriven(count, expired)
        is_own = len(state.open) >= group.commands.settings.open_max
        limited_by = LimitedBy.OPEN_MAX if is_own else LimitedBy.SERVER
        return Redriven(
            count, [each for each in expired if each < rest], id_before(rest), limited_by
        )

    async def drop(self, group: LoadedGroup, ids: Sequence[bytes]) -> int:
        """Mark dead letters as handled and do nothing else; return how many there were."""
        parts = self._in_parts(group, ids)
        return sum([await self._handle(group, letters, {}) async for letters in parts])

    async def _in_parts(
        self, group: LoadedGroup, ids: Sequence[bytes]
    ) -> AsyncIterator[Sequence[DeadLetter]]:
        """Yield the dead letters with `ids`, in parts of bounded size."""
        rest = sorted(set(ids))
        while rest:
            async with self._states.held((self._topic_of(group),)) as [state]:
                bodies = await read_bodies(state, self._read, rest, _BYTES_MAX)
            rest = rest[len(bodies.ids) + len(bodies.gone) :]
            messages = (message for block in bodies.blocks for message in block)
            yield [
                letter for message in messages if (letter := _unhandled(group, message)) is not None
            ]

    async def _messages_of(
        self, group: LoadedGroup, letters: Sequence[DeadLetter]
    ) -> dict[bytes, bytes]:
        """Return the digests of the keys of their messages, by message id, if they still exist."""
        digests: dict[bytes, bytes] = {}
        ids = sorted({letter.origin.id for letter in letters})
        while ids:
            bodies = await read_bodies(group.state, self._read, ids, _BYTES_MAX)
            for message in (message for block in bodies.blocks for message in block):
                digests[message.id] = digest_of(message)
            ids = ids[len(bodies.ids) + len(bodies.gone) :]
        return digests

    async def _handle(
        self,
        group: LoadedGroup,
        letters: Sequence[DeadLetter],
        messages: Mapping[bytes, bytes],
        *,
        publishes: bool = False,
    ) -> int:
        """Record that dead letters are handled; return how many were not handled before.

        If the group has no room for all `messages`, the last letters are left as they are.
        """
        state = group.commands.state
        while letters := [letter for letter in letters if not state.is_handled(letter.id)]:
            if messages and not (letters := letters[: self._groups.room(group)]):
                break
            ids = [letter.id for letter in letters]
            redriven = await self._dealt_with(group, frozenset(ids))
            later = [
                each for each in state.handled.union(ids) if redriven is None or each > redriven
            ]
            if len(later) > _HANDLED_MAX:
                raise InvalidRequest(
                    "invalid_group",
                    reason=f"over {_HANDLED_MAX} dead letters would be handled before older "
                    "ones: redrive or drop those first",
                )
            origins = [letter.origin.id for letter in letters]
            again = {origin: messages[origin] for origin in origins if origin in messages}
            parts: list[Carried] = [Handling(group, self._groups, redriven, ids, again)]
            if publishes:
                copies = [letter.message for letter in letters]
                parts.insert(0, publication(self._writing, group.state, copies))
            try:
                await self._writer.submit(JointWrite(parts))
            except CarryAgain:
                group.check_current()
                continue
            return len(letters)
        return 0

    async def _dealt_with(self, group: LoadedGroup, handled: Collection[bytes]) -> bytes | None:
        """Return the id up to which all are handled, once those in `handled` are."""
        scan = await self._scan(group, None, 1, handled)
        return id_before(scan.letters[0].id) if scan.letters else scan.last

    async def _scan(
        self,
        group: LoadedGroup,
        after: bytes | None,
        limit: int,
        handled: Collection[bytes] = (),
    ) -> _Scan:
        """Read dead letters of a group that are neither handled nor in `handled`."""
        redriven = group.commands.state.redriven
        last = max(filter(None, (after, redriven)), default=None)
        position: bytes | None = FIRST_ID if last is None else id_after(last)
        letters: list[DeadLetter] = []
        scanned = size = 0
        async with self._states.held((self._topic_of(group),)) as [state]:
            while position is not None and scanned < _SCANNED_MAX:
                page = await self._read(state, Reading(position, _PAGE, Isolation.COMMITTED))
                for message in (message for block in page.blocks for message in block):
                    if len(letters) == limit or size >= _BYTES_MAX:
                        return _Scan(letters, last, scanned, is_over=False)
                    scanned += 1
                    last = message.id
                    letter = None if message.id in handled else _unhandled(group, message)
                    if letter is not None:
                        letters.append(letter)
                        size += len(message.payload)
                position = page.next_position
        return _Scan(letters, last, scanned, is_over=position is None)

    def _topic_of(self, group: LoadedGroup) -> TopicId:
        name = group.commands.settings.dead_letter
        if not name:
            raise InvalidRequest("invalid_group", reason="the group has no topic of dead letters")
        return TopicId(group.state.topic.id.namespace, name)


def _unhandled(group: LoadedGroup, message: Message) -> DeadLetter | None:
    """Return a message as an unhandled dead letter of the group; None if it is not one."""
    return None if group.commands.state.is_handled(message.id) else _letter(group, message)


def _is_of_this_life(group: LoadedGroup, letter: Message) -> bool:
    """Whether a dead letter is not one of a deleted group with the same name."""
    created = created_of(letter)
    if created is not None:
        return created == group.created
    # After a restart, a group may be created with a version that is ahead of the clock.
    return published_ms(letter.id) * _US_PER_MS >= group.created - 2 * HIGH_AHEAD_US


def _letter(group: LoadedGroup, message: Message) -> DeadLetter | None:
    """Return a message as a dead letter of the group; None if it is not one."""
    if not _is_of_this_life(group, message):
        return None
    letter = dead_letter_of(message)
    here = group.state.topic.id.name, group.name
    return letter if letter and (letter.origin.topic, letter.origin.group) == here else None
