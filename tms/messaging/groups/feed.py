"""How a group gets messages: it reads on in its topic, and reads the bodies of what it gives.

Both read as a committed reader does. So a group stops at a message whose transaction is in
progress, and a body that is not there any more has expired, was trimmed, or was compacted away.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from tms.core.services.messaging import Page
from tms.core.values.groups import LimitedBy
from tms.core.values.message import (
    FIRST_ID,
    Message,
    MessageBlock,
    id_after,
    id_before,
)
from tms.core.values.reading import Isolation, Reading
from tms.messaging.groups.ahead import READ_MIN
from tms.messaging.groups.edits import DIGEST_BYTES
from tms.messaging.groups.loaded_group import LoadedGroup
from tms.messaging.loaded_topics import TopicState

_SCATTERED = 4

ReadPage = Callable[[TopicState, Reading], Awaitable[Page]]
"""Reads what is committed."""


class Fed(NamedTuple):
    """The messages that were read on."""

    limited_by: LimitedBy | None
    stopped_at: int | None
    blocks: Sequence[MessageBlock] = ()
    ids: Sequence[bytes] = ()


class AtHand(NamedTuple):
    """The messages that are to be given, as far as they are in memory."""

    fed: Fed | None
    oldest: bytes
    """Messages below this id are not live, or may be deleted."""
    now_ms: int


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
    asked = wanted
    next_position: bytes | None = None
    while wanted > 0:
        left = min(room, commands.settings.open_max - len(state.open))
        if left <= 0:
            is_own = len(state.open) >= commands.settings.open_max
            reason = LimitedBy.OPEN_MAX if is_own else LimitedBy.SERVER
            return Fed(reason, None, blocks, all_ids)
        through, floor = state.through, state.floor
        position = next_position or (FIRST_ID if through is None else id_after(through))
        limit = min(max(wanted, READ_MIN), left)
        page = await read(group.state, Reading(position, limit, Isolation.COMMITTED))
        group.check_current()
        if (state.through, state.floor) != (through, floor):
            next_position = None
            continue  # it was moved meanwhile
        ids, digests = _ids_of(page.blocks, by_key=state.by_key)
        keys = len(state.keys)
        commands.read(_through(page, ids, through), ids, digests, now_ms)
        if state.by_key or len(ids) > asked:
            group.ahead.keep(page.blocks, now_ms)
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


def _ids_of(blocks: Iterable[MessageBlock], *, by_key: bool) -> tuple[list[bytes], list[bytes]]:
    """Return the ids of messages, and by key the digests of their keys."""
    if not by_key:
        return [each for block in blocks for each in block.ids()], []
    ids, digests = [], []
    for block in blocks:
        for message in block:
            ids.append(message.id)
            digests.append(digest_of(message))
    return ids, digests


def digest_of(message: Message) -> bytes:
    """Return the digest of a message's key; one without is a key of its own."""
    key = message.id if message.key is None else message.key
    return blake2b(key, digest_size=DIGEST_BYTES).digest()


async def bodies_of(
    group: LoadedGroup, read: ReadPage, ids: Sequence[bytes], bytes_max: int, at_hand: AtHand
) -> Bodies:
    """Return the messages with `ids`, the first of them up to `bytes_max`, at least one."""
    fed = at_hand.fed
    if fed is not None and fed.ids == ids and sum(len(b.items) for b in fed.blocks) <= bytes_max:
        return Bodies(fed.blocks, ids, ())
    ahead, count = group.ahead.give(ids, at_hand.oldest, at_hand.now_ms, bytes_max)
    if not count:
        return await read_bodies(group.state, read, ids, bytes_max)
    left = bytes_max - sum(len(block.items) for block in ahead)
    if count == len(ids) or left <= 0:
        return Bodies(ahead, ids[:count], ())
    rest = await read_bodies(group.state, read, ids[count:], left)
    return Bodies([*ahead, *rest.blocks], [*ids[:count], *rest.ids], rest.gone)


async def read_bodies(
    state: TopicState, read: ReadPage, ids: Sequence[bytes], bytes_max: int
) -> Bodies:
    """Return the messages of a topic with `ids`, as `bodies_of`."""
    last = id_after(ids[-1])
    blocks: list[MessageBlock] = []
    found: list[bytes] = []
    gone: list[bytes] = []
    size = at = 0
    limit = len(ids)
    while at < len(ids) and (size < bytes_max or not found):
        reading = Reading(ids[at], min(limit, len(ids) - at), Isolation.COMMITTED, last)
        page = await read(state, reading)
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
