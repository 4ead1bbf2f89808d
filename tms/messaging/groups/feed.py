"""How a group gets messages: it reads on in its topic, and reads the bodies of what it gives.

Both read as a committed reader does. So a group stops at a message whose transaction is in
progress, and a body that is not there any more has expired, was trimmed, or was compacted away.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from tms.core.groups import LimitedBy
from tms.core.message import (
    FIRST_ID,
    KEY_BYTES,
    NO_PAYLOAD_KEY,
    Message,
    MessageBlock,
    id_after,
)
from tms.core.messaging import Page
from tms.core.reading import Isolation, Reading
from tms.messaging.groups.edits import DIGEST_BYTES
from tms.messaging.groups.loaded import LoadedGroup
from tms.messaging.loaded_topics import TopicState

_BY_KEY_READ_MIN = 100
"""By key, messages may be of keys that somebody has, so more are read than are asked for."""
_SCATTERED = 4

ReadPage = Callable[[TopicState, Reading], Awaitable[Page]]
"""Reads what is committed."""


class Fed(NamedTuple):
    """The messages that were read on."""

    limited_by: LimitedBy | None
    stopped_at: int | None
    blocks: Sequence[MessageBlock] = ()
    ids: Sequence[bytes] = ()


class Bodies(NamedTuple):
    """The messages that are given, and those that are not there any more."""

    blocks: Sequence[MessageBlock]
    ids: Sequence[bytes]
    gone: Sequence[bytes]


async def read_on(group: LoadedGroup, read: ReadPage, wanted: int, room: int, now_ms: int) -> Fed:
    """Open about `wanted` more messages, at most `room`, and return what stopped that."""
    commands = group.commands
    state = commands.state
    blocks: list[MessageBlock] = []
    all_ids: list[bytes] = []
    next_position: bytes | None = None
    while wanted > 0:
        left = min(room, commands.settings.open_max - len(state.open))
        if left <= 0:
            is_own = len(state.open) >= commands.settings.open_max
            reason = LimitedBy.OPEN_MAX if is_own else LimitedBy.SERVER
            return Fed(reason, None, blocks, all_ids)
        through, floor = state.through, state.floor
        position = next_position or (FIRST_ID if through is None else id_after(through))
        limit = max(wanted, _BY_KEY_READ_MIN) if state.by_key else wanted
        page = await read(group.state, Reading(position, min(limit, left), Isolation.COMMITTED))
        group.check_current()
        if (state.through, state.floor) != (through, floor):
            next_position = None
            continue  # it was moved meanwhile
        ids, digests = _ids_of(page.blocks, by_key=state.by_key)
        keys = len(state.keys)
        commands.read(_through(page, ids, through), ids, digests, now_ms)
        blocks += page.blocks
        all_ids += ids
        room -= len(ids)
        wanted -= len(state.keys) - keys if state.by_key else len(ids)
        if page.stopped_at is not None:
            return Fed(LimitedBy.TRANSACTION, page.stopped_at, blocks, all_ids)
        next_position = page.next_position
        if next_position is None:
            break
    return Fed(None, None, blocks, all_ids)


def _through(page: Page, ids: Sequence[bytes], through: bytes | None) -> bytes | None:
    """Return the last id that was looked at.

    It never goes back: of messages that were stored, `id_before` gives the batch, and each of them
    comes after that.
    """
    last = ids[-1] if ids else through
    if page.next_position is None:
        return last
    before = id_before(page.next_position)
    return before if last is None else max(before, last)


def id_before(position: bytes) -> bytes:
    """Return the id behind which `position` is (`id_after`)."""
    if position[KEY_BYTES:] != NO_PAYLOAD_KEY:
        return (int.from_bytes(position) - 1).to_bytes(len(position))
    return (int.from_bytes(position[:KEY_BYTES]) - 1).to_bytes(KEY_BYTES) + NO_PAYLOAD_KEY


def _ids_of(blocks: Iterable[MessageBlock], *, by_key: bool) -> tuple[list[bytes], list[bytes]]:
    """Return the ids of messages, and by key the digests of their keys."""
    if not by_key:
        return [each for block in blocks for each in block.columns()[0]], []
    ids, digests = [], []
    for block in blocks:
        for message in block:
            ids.append(message.id)
            key = message.id if message.key is None else message.key
            digests.append(blake2b(key, digest_size=DIGEST_BYTES).digest())
    return ids, digests


async def bodies_of(
    group: LoadedGroup, read: ReadPage, ids: Sequence[bytes], fed: Fed | None, bytes_max: int
) -> Bodies:
    """Return the messages with `ids`, the first of them up to `bytes_max`, at least one."""
    if fed is not None and fed.ids == ids and sum(len(b.items) for b in fed.blocks) <= bytes_max:
        return Bodies(fed.blocks, ids, ())
    last = id_after(ids[-1])
    blocks: list[MessageBlock] = []
    found: list[bytes] = []
    gone: list[bytes] = []
    size = at = 0
    limit = len(ids)
    while at < len(ids) and (size < bytes_max or not found):
        reading = Reading(ids[at], min(limit, len(ids) - at), Isolation.COMMITTED, last)
        page = await read(group.state, reading)
        given: list[Message] = []
        seen = 0
        for message in (message for block in page.blocks for message in block):
            seen += 1
            while at < len(ids) and ids[at] < message.id:
                gone.append(ids[at])
                at += 1
            if at < len(ids) and ids[at] == message.id:
                if (found or given) and size >= bytes_max:
                    break
                given.append(message)
                size += len(message.payload)
                at += 1
        else:
            if page.next_position is None:
                gone += ids[at:]
                at = len(ids)
            elif not seen:
                while at < len(ids) and ids[at] < page.next_position:
                    gone.append(ids[at])
                    at += 1
        # Where most of what is read is not wanted, little is read at a time.
        limit = len(ids) if len(given) * 2 >= seen else _SCATTERED
        blocks += page.blocks if len(given) == seen else [MessageBlock.of(given)] if given else []
        found += [message.id for message in given]
    return Bodies(blocks, found, gone)
