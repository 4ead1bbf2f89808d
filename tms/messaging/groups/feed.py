"""Reads a group's messages: the next ones of its topic, and the bodies of those it delivers.

Both reads return committed messages only. So a group stops at a message whose transaction is in
progress. A body that no longer exists has expired, was trimmed, or was compacted away.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from hashlib import blake2b
from time import monotonic
from typing import NamedTuple

from tms.core.services.messaging import FilteredPage, Page
from tms.core.values.filters import filter_of
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
_PASSING_S_MAX = 5.0
"""A feed ends after this many seconds even if nothing has matched."""

ReadPage = Callable[[TopicState, Reading], Awaitable[Page]]
"""Reads committed messages."""


class Fed(NamedTuple):
    """The messages that `read_on` has opened, and what stopped it."""

    limited_by: LimitedBy | None
    stopped_at: int | None
    blocks: Sequence[MessageBlock] = ()
    ids: Sequence[bytes] = ()
    is_cut: bool = False
    """Whether it has passed messages that do not match for a while, and more follow."""


class AtHand(NamedTuple):
    """Messages in memory, which need not be read again to be delivered."""

    fed: Fed | None
    oldest: bytes
    """Messages below this id are no longer live, or may be deleted."""
    now_ms: int


class Bodies(NamedTuple):
    """The messages that were read, and the ids of those that no longer exist."""

    blocks: Sequence[MessageBlock]
    ids: Sequence[bytes]
    gone: Sequence[bytes]


async def read_on(group: LoadedGroup, read: ReadPage, count: int, room: int, now_ms: int) -> Fed:
    """Open about `count` more messages, at most `room`, and return what stopped that."""
    commands = group.commands
    state = commands.state
    blocks: list[MessageBlock] = []
    all_ids: list[bytes] = []
    remaining = count
    next_position: bytes | None = None
    until_s = monotonic() + _PASSING_S_MAX
    while remaining > 0:
        free = min(room, commands.settings.open_max - len(state.open))
        if free <= 0:
            is_own = len(state.open) >= commands.settings.open_max
            reason = LimitedBy.OPEN_MAX if is_own else LimitedBy.SERVER
            return Fed(reason, None, blocks, all_ids)
        through, floor = state.through, state.floor
        text = commands.settings.filter
        position = next_position or (FIRST_ID if through is None else id_after(through))
        limit = min(max(remaining, READ_MIN), free)
        chosen = filter_of(text) if text else None
        page = await read(group.state, Reading(position, limit, Isolation.COMMITTED, None, chosen))
        group.check_current()
        if (state.through, state.floor, commands.settings.filter) != (through, floor, text):
            next_position = None
            continue  # the group was moved, or has another filter, in the meantime
        ids, digests = _ids_of(page.blocks, by_key=state.by_key)
        keys = len(state.keys)
        commands.read(_through(page, ids, through), ids, digests, now_ms)
        if state.by_key or len(ids) > count:
            group.ahead.keep(page.blocks, now_ms)
        blocks += page.blocks
        all_ids += ids
        room -= len(ids)
        remaining -= len(state.keys) - keys if state.by_key else len(ids)
        if page.stopped_at is not None:
            return Fed(LimitedBy.TRANSACTION, page.stopped_at, blocks, all_ids)
        next_position = page.next_position
        if next_position is None:
            break
        if text and monotonic() >= until_s:
            return Fed(None, None, blocks, all_ids, is_cut=True)
    return Fed(None, None, blocks, all_ids)


def _through(page: Page, ids: Sequence[bytes], through: bytes | None) -> bytes | None:
    """Return the last id that was read.

    It never decreases: `id_before` may return the id of a reference, which is lower than the ids of
    the messages that it publishes.
    """
    last = ids[-1] if ids else through
    position = page.position if isinstance(page, FilteredPage) else page.next_position
    if position is None or position == FIRST_ID:
        return last
    before = id_before(position)
    return before if last is None else max(before, last)


def _ids_of(blocks: Iterable[MessageBlock], *, by_key: bool) -> tuple[list[bytes], list[bytes]]:
    """Return the ids of messages, and by key the digests of their keys."""
    if not by_key:
        return [message_id for block in blocks for message_id in block.ids()], []
    ids, digests = [], []
    for block in blocks:
        for message in block:
            ids.append(message.id)
            digests.append(digest_of(message))
    return ids, digests


def digest_of(message: Message) -> bytes:
    """Return the digest of a message's key; without one, its id counts as the key."""
    key = message.id if message.key is None else message.key
    return blake2b(key, digest_size=DIGEST_BYTES).digest()


async def bodies_of(
    group: LoadedGroup, read: ReadPage, ids: Sequence[bytes], bytes_max: int, at_hand: AtHand
) -> Bodies:
    """Return the messages with the first of `ids`, up to `bytes_max`, but at least one."""
    fed = at_hand.fed
    if fed is not None and fed.ids == ids and sum(len(b.items) for b in fed.blocks) <= bytes_max:
        return Bodies(fed.blocks, ids, ())
    ahead, count = group.ahead.give(ids, at_hand.oldest, at_hand.now_ms, bytes_max)
    if not count:
        return await read_bodies(group.state, read, ids, bytes_max)
    remaining = bytes_max - sum(len(block.items) for block in ahead)
    if count == len(ids) or remaining <= 0:
        return Bodies(ahead, ids[:count], ())
    rest = await read_bodies(group.state, read, ids[count:], remaining)
    return Bodies([*ahead, *rest.blocks], [*ids[:count], *rest.ids], rest.gone)


async def read_bodies(
    state: TopicState, read: ReadPage, ids: Sequence[bytes], bytes_max: int
) -> Bodies:
    """Read the messages of a topic with `ids`, as `bodies_of`."""
    last = id_after(ids[-1])
    blocks: list[MessageBlock] = []
    read_ids: list[bytes] = []
    gone: list[bytes] = []
    size = at = 0
    limit = len(ids)
    while at < len(ids) and (size < bytes_max or not read_ids):
        reading = Reading(ids[at], min(limit, len(ids) - at), Isolation.COMMITTED, last)
        page = await read(state, reading)
        matching: list[Message] = []
        seen = 0
        for message in (message for block in page.blocks for message in block):
            seen += 1
            while at < len(ids) and ids[at] < message.id:
                gone.append(ids[at])
                at += 1
            if at < len(ids) and ids[at] == message.id:
                if (read_ids or matching) and size >= bytes_max:
                    break
                matching.append(message)
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
        # If most of a page was not asked for, the next one is small.
        limit = len(ids) if len(matching) * 2 >= seen else _SCATTERED
        blocks += (
            page.blocks
            if len(matching) == seen
            else [MessageBlock.of(matching)]
            if matching
            else []
        )
        read_ids += [message.id for message in matching]
    return Bodies(blocks, read_ids, gone)
