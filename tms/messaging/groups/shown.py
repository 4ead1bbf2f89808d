"""The values in which callers see a group and its open messages."""

from typing import Literal

from tms.core.values.groups import Group, GroupState, LimitedBy, OpenMessage
from tms.core.values.message import FIRST_ID, id_after, published_ms
from tms.core.values.reading import Isolation, Reading
from tms.messaging.groups.feed import ReadPage
from tms.messaging.groups.loaded_group import LoadedGroup
from tms.messaging.groups.open_entries import Taker

_UNREAD_MAX = 10_000
_UNREAD_BYTES_MAX = 8 * 1024 * 1024


async def group_shown(group: LoadedGroup, read: ReadPage, now_ms: int) -> Group:
    """Return a group as it is at `now_ms`. Raises `GroupLeftMemory`."""
    state = group.commands.state
    unread, stopped_at = await _unread(group, read)
    shared = group.shared
    waiting = free = 0
    for message_id, opened in state.open.items():
        if not opened.delivery:
            waiting += opened.not_before_ms > now_ms
            free += state.is_free(message_id, now_ms)
    oldest = next(iter(state.open), None)
    limited = group.commands.short_because(Taker("", None))
    if limited is None and stopped_at is not None and not free:
        limited = LimitedBy.TRANSACTION
    if free and limited is not LimitedBy.PAUSED:
        limited = None
    rate = shared.settings.rate
    if limited is None and (free or unread) and group.commands.pace.is_used_up(rate, now_ms):
        limited = LimitedBy.RATE
    return Group(
        shared.topic_id,
        shared.name,
        shared.version,
        shared.after,
        shared.settings,
        GroupState(
            through=state.through,
            unread=unread,
            open=len(state.open),
            leased=state.leased,
            waiting=waiting - len(state.dying),
            blocked=len(state.open) - state.leased - waiting - free,
            oldest_open=oldest,
            oldest_s=None if oldest is None else max(0, now_ms - published_ms(oldest)) / 1000,
            members=len(state.held),
            dying=len(state.dying),
            limited_by=limited,
            stopped_at=stopped_at,
        ),
        group.commands.counts.shown(),
    )


async def _unread(group: LoadedGroup, read: ReadPage) -> tuple[int, int | None]:
    """Return the number of unread messages, up to a limit, and the transaction that blocks them."""
    through = group.commands.state.through
    position: bytes | None = FIRST_ID if through is None else id_after(through)
    count, size, stopped_at = 0, 0, None
    while position is not None and count < _UNREAD_MAX and size < _UNREAD_BYTES_MAX:
        reading = Reading(position, _UNREAD_MAX - count, Isolation.COMMITTED)
        page = await read(group.state, reading)
        count, position, stopped_at = count + page.count, page.next_position, page.stopped_at
        size += sum(len(block.items) for block in page.blocks)
    return count, stopped_at


def open_message_shown(group: LoadedGroup, message_id: bytes, now_ms: int) -> OpenMessage:
    """Return an open message as it is at `now_ms`."""
    state = group.commands.state
    opened = state.open[message_id]
    member, until_ms = None, None
    status: Literal["available", "leased", "waiting", "blocked", "dying"]
    if opened.delivery:
        delivery = state.deliveries[opened.delivery]
        status, member, until_ms = "leased", delivery.taker.name, delivery.end_ms
    elif message_id in state.dying:
        status = "dying"
    elif opened.not_before_ms > now_ms:
        status, until_ms = "waiting", opened.not_before_ms
    else:
        status = "available" if state.is_free(message_id, now_ms) else "blocked"
    last_member = None if opened.last_taker is None else opened.last_taker.name
    reason = state.reasons.get(message_id)
    return OpenMessage(message_id, opened.attempts, status, member, until_ms, last_member, reason)
