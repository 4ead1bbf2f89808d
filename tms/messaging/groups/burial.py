"""Turns dying messages of a group into dead letters.

1. A dead letter is written in the flush that settles its message, so a message has at most one,
   even after a crash.
2. If the topic of dead letters is missing, is full or refuses them, dying messages wait. The write
   is retried, and `LoadedGroup.burial_error` says why it fails; no message is dropped.
3. A group is paused durably before more of its messages die than its settings allow.
"""

import logging
from collections.abc import Collection, Sequence
from typing import Final

from tms.core.errors import StoreUnavailable, TmsError
from tms.core.services.commits import Carried, CarryAgain, JointWrite
from tms.core.values.batch import Batch
from tms.core.values.dead_letters import LetterOrigin, dead_letter
from tms.core.values.frame import bodies_of as framed
from tms.core.values.message import Message
from tms.core.values.topic import TopicId, TopicMetadata
from tms.core.values.topic_properties import SCHEMA_CHECK
from tms.messaging.groups.feed import ReadPage, read_bodies
from tms.messaging.groups.loaded import LoadedGroups
from tms.messaging.groups.loaded_group import GroupLeftMemory, LoadedGroup
from tms.messaging.groups.writes import GroupChange
from tms.messaging.loaded_topics import TopicState
from tms.messaging.subscriptions import SubscriptionService
from tms.messaging.write_requests import Publication, Writing

_AT_ONCE: Final = 1_000
_BYTES_MAX: Final = 4 * 1024 * 1024
_AGAIN_S: Final = 5.0

_log = logging.getLogger(__name__)


class Burial(Carried):
    """Settles messages whose dead letters are written in the same flush."""

    size_bytes = 200

    def __init__(self, group: LoadedGroup, groups: LoadedGroups, ids: Sequence[bytes]) -> None:
        self._group = group
        self._groups = groups
        self._ids = ids

    def check(self, write_pointers: Collection[int]) -> None:  # noqa: ARG002
        """Raise `CarryAgain` if one of the messages was acknowledged in the meantime."""
        self._group.check_current()
        if not self._group.commands.still_dying(self._ids):
            raise CarryAgain(reason="a dying message was acknowledged")

    def add_rows(self, batch: Batch, now_ms: int) -> None:  # noqa: ARG002
        """Settle the messages; `LoadedGroups` adds the group's row."""
        self._group.commands.buried(self._ids, self._groups.time.now_ms())
        self._groups.edited(self._group)

    def on_durable(self) -> None:
        """Wake the waiting takes: the keys of these messages are free."""
        self._group.ring()


class Burials:
    """Writes the dead letters of a store's groups."""

    def __init__(
        self, writing: Writing, subscriptions: SubscriptionService, read: ReadPage
    ) -> None:
        self._writing = writing
        self._states = writing.engine.states
        self._writer = writing.engine.writer
        self._subscriptions = subscriptions
        self._read = read

    async def attend(self, groups: LoadedGroups, group: LoadedGroup) -> None:
        """Bury dying messages, and pause the group if too many die; retry later after a failure."""
        commands = group.commands
        try:
            while not group.is_dropped and (commands.deaths.is_over or commands.state.dying):
                try:
                    if commands.deaths.is_over:
                        await self._pause(group)
                    else:
                        await self._bury(groups, group)
                except GroupLeftMemory:
                    return
                except CarryAgain:
                    continue
            group.burial_error = ""
        except GroupLeftMemory:
            return
        except TmsError as error:
            if not group.burial_error:
                _log.warning(
                    "cannot write the dead letters of group %s of topic %s: %s",
                    group.name,
                    group.state.topic.id,
                    error,
                )
            group.burial_error = str(error)
            groups.attend_later(group, _AGAIN_S)

    async def _pause(self, group: LoadedGroup) -> None:
        settings, topic_id = group.commands.settings, group.state.topic.id
        if group.shared.settings.paused:  # since an earlier message would have died
            group.commands.deaths.is_over = False
            return
        async with self._subscriptions.held((topic_id,)) as [positions]:
            writing = self._subscriptions.writing
            change = GroupChange(writing, positions, group, {"paused": True}, None)
            await self._writer.submit(change)
        group.commands.deaths.is_over = False
        _log.warning(
            "paused group %s of topic %s: over %d of its messages would have become dead letters "
            "within %d seconds; `tms group resume` continues it",
            group.name,
            topic_id,
            settings.dead_letters_max,
            settings.dead_letters_per_s,
        )

    async def _bury(self, groups: LoadedGroups, group: LoadedGroup) -> None:
        """Write the dead letters of some messages."""
        commands = group.commands
        ids = sorted(list(commands.state.dying)[:_AT_ONCE])
        bodies = await read_bodies(group.state, self._read, ids, _BYTES_MAX)
        group.check_current()
        if bodies.gone:
            commands.gone(bodies.gone, groups.time.now_ms())
            groups.edited(group)
        messages = [message for block in bodies.blocks for message in block]
        if not messages:
            return
        if not commands.still_dying(bodies.ids):
            raise CarryAgain(reason="a dying message was acknowledged")
        letters = [
            dead_letter(message, self._origin_of(group, message.id), group.created)
            for message in messages
        ]
        topic_id = TopicId(group.state.topic.id.namespace, commands.settings.dead_letter)
        async with self._states.held((topic_id,)) as [state]:
            checked = check_takes_dead_letters(state.topic)
            parts = [
                publication(self._writing, state, letters, checked),
                Burial(group, groups, bodies.ids),
            ]
            await self._writer.submit(JointWrite(parts))

    def _origin_of(self, group: LoadedGroup, message_id: bytes) -> LetterOrigin:
        state = group.commands.state
        death = state.dying[message_id]
        return LetterOrigin(
            topic=group.state.topic.id.name,
            group=group.name,
            id=message_id,
            disposition=death.disposition,
            attempts=state.open[message_id].attempts,
            reason=death.reason,
            member=death.member,
            at_ms=death.at_ms,
        )


def publication(
    writing: Writing,
    state: TopicState,
    messages: Sequence[Message],
    checked: TopicMetadata | None = None,
) -> Publication:
    """Return the part of a joint write that publishes messages."""
    bodies = framed([message.body() for message in messages])
    return Publication(writing, state, bodies, None, sum(map(len, bodies)), checked=checked)


def check_takes_dead_letters(topic: TopicMetadata) -> TopicMetadata:
    """Return the topic. Raises `StoreUnavailable` if it could refuse or replace dead letters."""
    if topic.is_compact or SCHEMA_CHECK in topic.properties:
        raise StoreUnavailable(
            topic=str(topic.id),
            reason="a topic of dead letters must neither be compact nor check schemas",
        )
    return topic
