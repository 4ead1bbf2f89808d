"""Snapshots of a group's state, as bytes.

    snapshot := version byte (1), crc32 uint32 over what follows, through, floor int64,
                last delivery int64, redriven, count, delivery*, ids, holders, attempts, ends,
                waits, [digests], count of the dying, (index of the id number, death)*, [handled]
    delivery := number int64, lease ms uint32, member text, [principal text], [sequence]
    holders, attempts, ends := a number for each id: 0 or 1 + index of the delivery; how many
                attempts failed; how many of them because a lease ended
    waits    := least int64 ms, then a number for each id: 0, or 1 + its time less the least
    redriven := the id up to which all dead letters are handled, like `through`
    handled  := the ids of later dead letters that are handled; omitted if there are none and no
                message is dying

The parts are those of `edits`; digests exist only if the order is by key. DO NOT CHANGE: on disk.
Decoding returns the state that was encoded, except that all leases start again.
"""

from typing import NamedTuple
from zlib import crc32

from tms.core.errors import StoreCorrupt
from tms.messaging.groups.edits import (
    DIGEST_BYTES,
    ROW_VERSION,
    Death,
    TakenEdit,
    checked,
    death_bytes,
    death_of,
    through_bytes,
    through_of,
)
from tms.messaging.groups.open_entries import NEVER_MS, Delivery, OpenEntry
from tms.messaging.groups.state import OpenMessages
from tms.messaging.groups.varints import (
    GroupReader,
    ids_bytes,
    number_bytes,
    numbers_bytes,
    text_bytes,
)


class Frozen(NamedTuple):
    """A copy of a state at one moment, quick to make, which a thread encodes."""

    through: bytes | None
    floor: int
    last_delivery: int
    deliveries: list[tuple[int, Delivery]]
    ids: list[bytes]
    marks: tuple[list[int], list[int], list[int], list[int], list[bytes | None]]
    """Columns with a value for each id: delivery, attempts, ends, `not_before_ms`, digest."""
    dying: list[tuple[bytes, Death]]
    redriven: bytes | None
    handled: list[bytes]


def freeze(state: OpenMessages) -> Frozen:
    """Return a copy of those parts of a state that are stored."""
    opened = list(state.open.values())
    return Frozen(
        state.through,
        state.floor,
        state.last_delivery,
        list(state.deliveries.items()),
        list(state.open),
        (
            [entry.delivery for entry in opened],
            [entry.attempts for entry in opened],
            [entry.ends for entry in opened],
            [entry.not_before_ms for entry in opened],
            [entry.digest for entry in opened],
        ),
        list(state.dying.items()),
        state.redriven,
        sorted(state.handled),
    )


def encode_snapshot(frozen: Frozen) -> bytes:
    """Return the snapshot of a state."""
    deliveries, attempts, ends, waits, digests = frozen.marks
    dying = _dying_bytes(frozen)
    waits = [wait_ms if wait_ms < NEVER_MS else 0 for wait_ms in waits] if dying else waits
    index = {number: place for place, (number, _) in enumerate(frozen.deliveries, 1)}
    least_ms = min((wait_ms for wait_ms in waits if wait_ms), default=0)
    body = b"".join(
        (
            through_bytes(frozen.through),
            frozen.floor.to_bytes(8),
            frozen.last_delivery.to_bytes(8),
            through_bytes(frozen.redriven),
            number_bytes(len(frozen.deliveries)),
            *(_delivery_bytes(*delivery) for delivery in frozen.deliveries),
            ids_bytes(frozen.ids),
            numbers_bytes([index.get(delivery, 0) for delivery in deliveries]),
            numbers_bytes(attempts),
            numbers_bytes(ends),
            least_ms.to_bytes(8),
            numbers_bytes([wait_ms and 1 + wait_ms - least_ms for wait_ms in waits]),
            *(digest for digest in digests if digest is not None),
            dying or number_bytes(0),
        )
    )
    return bytes((ROW_VERSION,)) + crc32(body).to_bytes(4) + body


def _dying_bytes(frozen: Frozen) -> bytes:
    """Encode the dying messages and the handled dead letters; nothing if there are none."""
    if not (frozen.dying or frozen.handled):
        return b""
    places = (
        {message_id: place for place, message_id in enumerate(frozen.ids)} if frozen.dying else {}
    )
    dying = [
        number_bytes(places[message_id]) + death_bytes(death) for message_id, death in frozen.dying
    ]
    return number_bytes(len(dying)) + b"".join(dying) + ids_bytes(frozen.handled)


def decode_snapshot(data: bytes, now_ms: int, *, by_key: bool) -> OpenMessages:
    """Return the state of a snapshot; its leases start at `now_ms`. Raises `StoreCorrupt`."""
    try:
        return _state_of(GroupReader(checked(data)), now_ms, by_key=by_key)
    except (ValueError, IndexError):
        raise StoreCorrupt(table="group", snapshot=data[:5].hex()) from None


def _delivery_bytes(number: int, delivery: Delivery) -> bytes:
    member, principal, sequence = *delivery.taker, delivery.sequence
    return b"".join(
        (
            number.to_bytes(8),
            delivery.lease_ms.to_bytes(4),
            text_bytes(member),
            b"\x00" if principal is None else b"\x01" + text_bytes(principal),
            b"\x00" if sequence is None else b"\x01" + number_bytes(sequence),
        )
    )


def _state_of(reader: GroupReader, now_ms: int, *, by_key: bool) -> OpenMessages:
    state = OpenMessages(by_key=by_key)
    state.through = through_of(reader)
    state.floor, state.last_delivery = reader.integer(8), reader.integer(8)
    state.redriven = through_of(reader)
    taken = [_delivery_of(reader) for _ in range(reader.number())]
    ids = reader.ids()
    holders, attempts, ends = (reader.numbers(len(ids)) for _ in range(3))
    least_ms = reader.integer(8)
    waits = reader.numbers(len(ids))
    digests = [reader.fixed(DIGEST_BYTES) if by_key else None for _ in ids]
    for _ in range(reader.number()):
        place = reader.number()
        state.dying[ids[place]] = death_of(reader)
    state.handled = set() if reader.is_at_end else set(reader.ids())
    of_delivery: list[list[bytes]] = [[] for _ in range(len(taken) + 1)]
    for place, message_id in enumerate(ids):
        opened = OpenEntry(digests[place])
        opened.attempts, opened.ends = attempts[place], ends[place]
        opened.not_before_ms = waits[place] and waits[place] - 1 + least_ms
        if message_id in state.dying:
            opened.not_before_ms = NEVER_MS
        state.restore(message_id, opened)
        of_delivery[holders[place]].append(message_id)
    for delivery, held in zip(taken, of_delivery[1:], strict=True):
        delivery = delivery._replace(ids=held)  # noqa: PLW2901  now with its messages
        end_ms = now_ms + delivery.lease_ms
        restored = Delivery(delivery, state.taker_of(delivery), end_ms)
        state.add_delivery(delivery.delivery, restored)
    if not reader.is_at_end:
        raise ValueError
    return state


def _delivery_of(reader: GroupReader) -> TakenEdit:
    number, lease_ms = reader.integer(8), int.from_bytes(reader.fixed(4))
    member = reader.text()
    principal = reader.text() if reader.flag() else None
    sequence = reader.number() if reader.flag() else None
    return TakenEdit(number, lease_ms, member, principal, sequence, ())
