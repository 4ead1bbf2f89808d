"""The whole state of transactions as bytes, and back.

    snapshot := Tephra's snapshot, version 4        its tools read this and need no more
                extension version byte (2 to 4), texts, open, invalid, committed, ended, truncated,
                outcomes, owners                    `docs/formats.md` has their columns
                crc32 uint32 over all before it

A state is written in the oldest version with columns for its contents, so that earlier servers read
it: 3 has principals, 4 has the least times of messages.

DO NOT CHANGE: on disk. Decoding returns the encoded state; damaged bytes raise `StoreCorrupt`.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple, TypeVar
from zlib import crc32

from tms.core.errors import StoreCorrupt
from tms.core.limits import Limits
from tms.core.values.shards import EVERY_ID, OwnIds
from tms.core.values.transaction import TransactionType
from tms.transactions.change_sets import CommittedSet
from tms.transactions.commands import TransactionState
from tms.transactions.in_progress import Open
from tms.transactions.invalids import Invalid
from tms.transactions.outcomes import OUTCOMES
from tms.transactions.owners import LastCommit
from tms.transactions.snapshot_columns import (
    NOTHING,
    ColumnReader,
    Texts,
    encode_numbers,
    encode_rows,
)
from tms.transactions.snapshot_history import Past
from tms.transactions.varints import (
    VarintReader,
    encode_change_sets,
    encode_items,
    encode_long,
    encode_longs,
)

Item = TypeVar("Item")

_TEPHRA_VERSION = 4
_TEPHRA_CHECKPOINT = 2
_TEPHRA_TYPES = {TransactionType.SHORT: 0, TransactionType.LONG: 1}
_TYPES = {ordinal: type_ for type_, ordinal in _TEPHRA_TYPES.items()}


class _Widths(NamedTuple):
    """The numbers of columns in a version of the extension."""

    open: int
    invalid: int
    owner: int


_WITHOUT_PRINCIPALS, _WITH_PRINCIPALS, _WITH_TIMES = 2, 3, 4
_WIDTHS = {
    1: _Widths(6, 7, 4),  # owners have no origins
    _WITHOUT_PRINCIPALS: _Widths(7, 7, 5),
    _WITH_PRINCIPALS: _Widths(8, 8, 6),
    _WITH_TIMES: _Widths(9, 9, 6),
}
_NEWEST = _WIDTHS[_WITH_TIMES]
_CRC = struct.Struct(">I")

_COMMITTED_COLUMNS = 4


def encode_snapshot(state: TransactionState, now_ms: int) -> bytes:
    """Return the state as of `now_ms`, milliseconds since 1970."""
    return begin_snapshot(state, now_ms)()


def begin_snapshot(state: TransactionState, now_ms: int) -> Callable[[], bytes]:
    """Return a function that encodes the present state, however it changes later, in any thread.

    Only the owners take long, because there may be a million of them; that function encodes them.
    """
    state.excluded.sweep()
    state.invalids.settle(state.opened.first)
    texts, extension = Texts(), _oldest_for(state)
    widths = _WIDTHS[extension]
    start = _tephra_part(state, now_ms) + bytes((extension,))
    parts = _our_part(state, texts, widths)
    owners, commits = [*state.owners.last_commits], [*state.owners.last_commits.values()]

    def finish() -> bytes:
        owner_part = encode_rows(_owner_rows(owners, commits, texts), widths.owner)
        body = b"".join((start, texts.encoded(), *parts, owner_part))
        return body + _CRC.pack(crc32(body))

    return finish


def decode_snapshot(data: bytes, limits: Limits, ids: OwnIds = EVERY_ID) -> TransactionState:
    """Decode a state, to continue with `limits`. Raises `StoreCorrupt`."""
    body, checksum = data[: -_CRC.size], data[-_CRC.size :]
    if checksum != _CRC.pack(crc32(body)):
        raise StoreCorrupt(table="transaction", reason="a snapshot is damaged")
    try:
        return _decoded(body, TransactionState(limits, 0, ids))
    except (ValueError, LookupError, struct.error):
        raise StoreCorrupt(table="transaction", reason="a snapshot cannot be read") from None


def time_of_snapshot(data: bytes) -> int:
    """Return the time of a snapshot that `decode_snapshot` has read."""
    reader = VarintReader(data)
    reader.long()
    return reader.long()


def _tephra_part(state: TransactionState, now_ms: int) -> bytes:
    committing = {
        opened.id: opened.changes for opened in state.opened if opened.changes is not None
    }
    committed: dict[int, list[bytes]] = {}
    for change_set in state.change_sets.committed:
        committed.setdefault(change_set.commit_pointer, []).extend(change_set.changes)
    return b"".join(
        (
            *map(
                encode_long,
                (_TEPHRA_VERSION, now_ms, state.read_pointer, state.last_write_pointer),
            ),
            encode_longs(state.invalids.ascending),
            encode_items([_in_progress(*item) for item in state.opened.by_pointer.items()]),
            encode_change_sets(committing),
            encode_change_sets(committed),
        )
    )


def _in_progress(pointer: int, opened: Open) -> bytes:
    is_checkpoint = pointer != opened.id
    type_ = _TEPHRA_CHECKPOINT if is_checkpoint else _TEPHRA_TYPES[opened.type]
    fields = (pointer, opened.expires_ms, opened.visibility_upper_bound, type_)
    checkpoints = [] if is_checkpoint else opened.checkpoints
    return b"".join((*map(encode_long, fields), encode_longs(checkpoints)))


def _our_part(state: TransactionState, texts: Texts, widths: _Widths) -> tuple[bytes, ...]:
    """Return our columns, without the owners'."""
    return (
        _open_part(state, texts, widths.open),
        _invalid_part(state, texts, widths.invalid),
        _committed_part(state, texts),
        encode_rows(sorted(state.excluded.ended.items()), 2),
        encode_rows(sorted((p, *past) for p, past in state.excluded.truncated.items()), 3),
        encode_numbers(state.outcomes.order),
        bytes(state.outcomes.codes.values()),
    )


def _oldest_for(state: TransactionState) -> int:
    """Return the oldest version with columns for all contents of the state."""
    transactions: Iterator[Open | Invalid] = chain(state.opened, state.invalids.transactions())
    if any(transaction.keys_from_ms for transaction in transactions):
        return _WITH_TIMES
    transactions = chain(state.opened, state.invalids.transactions())
    has_principals = any(transaction.principal is not None for transaction in transactions)
    if has_principals or state.owners.shares.has_named:
        return _WITH_PRINCIPALS
    return _WITHOUT_PRINCIPALS


def _owner_rows(
    owners: Sequence[str], commits: Sequence[LastCommit], texts: Texts
) -> list[tuple[int, ...]]:
    return [
        (
            texts.index(owner),
            sequence,
            transaction_id,
            time_ms,
            texts.index(origin),
            texts.index(principal),
        )
        for owner, (sequence, transaction_id, time_ms, origin, principal) in zip(
            owners, commits, strict=True
        )
    ]


def _open_part(state: TransactionState, texts: Texts, width: int) -> bytes:
    rows = [
        (
            opened.timeout_s,
            opened.read_pointer,
            opened.first_short,
            texts.index(opened.client),
            texts.index(opened.owner),
            NOTHING if opened.sequence is None else opened.sequence,
            texts.index(opened.origin),
            texts.index(opened.principal),
            opened.keys_from_ms,
        )
        for opened in state.opened
    ]
    return encode_rows(rows, width)


def _invalid_part(state: TransactionState, texts: Texts, width: int) -> bytes:
    invalids = [*state.invalids.transactions()]
    rows = [
        (
            invalid.id,
            _TEPHRA_TYPES[invalid.type],
            invalid.since,
            texts.index(invalid.client),
            texts.index(invalid.owner),
            NOTHING if invalid.sequence is None else invalid.sequence,
            len(invalid.checkpoints),
            texts.index(invalid.principal),
            invalid.keys_from_ms,
        )
        for invalid in invalids
    ]
    checkpoints = chain.from_iterable(invalid.checkpoints for invalid in invalids)
    index_of = {p: index for index, invalid in enumerate(invalids) for p in invalid.pointers}
    return b"".join(
        (
            encode_rows(rows, width),
            encode_numbers(checkpoints),
            encode_numbers(map(index_of.__getitem__, state.invalids.ascending)),
        )
    )


def _committed_part(state: TransactionState, texts: Texts) -> bytes:
    rows = [
        (pointer, transaction_id, texts.index(client), len(changes))
        for pointer, transaction_id, client, changes, _ in state.change_sets.committed
    ]
    return encode_rows(rows, _COMMITTED_COLUMNS)


def _decoded(body: bytes, state: TransactionState) -> TransactionState:
    reader = VarintReader(body)
    if reader.long() != _TEPHRA_VERSION:
        raise ValueError
    reader.long()  # the time of the snapshot
    state.read_pointer, state.last_write_pointer = reader.long(), reader.long()
    invalid_pointers = reader.longs()
    in_progress = [
        (reader.long(), reader.long(), reader.long(), reader.long(), reader.longs())
        for _ in reader.counts()
    ]
    committing, committed = reader.change_sets(), reader.change_sets()
    columns = ColumnReader(body, reader.at)
    extension = columns.bytes(1)[0]
    widths = _WIDTHS[extension]
    texts = columns.texts()
    _read_open(state, in_progress, _padded(columns, widths.open, _NEWEST.open), texts)
    for transaction_id, changes in committing.items():
        state.opened.announce(state.opened.by_pointer[transaction_id], changes)
    invalid_rows = _padded(columns, widths.invalid, _NEWEST.invalid)
    _read_invalid(state, invalid_pointers, invalid_rows, columns, texts)
    _read_committed(state, committed, columns, texts)
    _read_excluded(state, columns)
    ids = columns.numbers()
    codes = columns.bytes(len(ids))
    if codes and max(codes) >= len(OUTCOMES):
        raise ValueError
    state.outcomes.load(ids, codes)
    for row in _padded(columns, widths.owner, _NEWEST.owner):
        owner, sequence, transaction_id, time_ms, origin, principal = row
        commit = LastCommit(
            sequence, transaction_id, time_ms, _text(texts, origin), _text(texts, principal)
        )
        state.owners.record(texts[owner], commit)
    for opened in state.opened:
        if opened.owner is not None and opened.sequence is not None:
            state.owners.promise(opened.owner, opened.principal)
    if columns.at != len(body):
        raise ValueError
    return state


def _padded(columns: ColumnReader, width: int, newest: int) -> list[tuple[int, ...]]:
    """Return rows of `width` numbers, padded with NOTHING for further columns of `newest`."""
    nothing = (NOTHING,) * (newest - width)
    return [(*row, *nothing) for row in columns.rows(width)]


def _read_open(
    state: TransactionState,
    in_progress: list[tuple[int, int, int, int, list[int]]],
    rows: Sequence[Sequence[int]],
    texts: list[str],
) -> None:
    own = [fields for fields in in_progress if fields[3] != _TEPHRA_CHECKPOINT]
    of_pointers: dict[int, Open] = {}
    for fields, row in zip(own, rows, strict=True):
        transaction_id, expires_ms, upper_bound, type_, checkpoints = fields
        # fmt: off
        (
            timeout_s, read_pointer, first_short, client, owner, sequence, origin, principal,
            keys_from_ms,
        ) = row
        # fmt: on
        opened = Open(
            transaction_id,
            _TYPES[type_],
            expires_ms,
            timeout_s,
            upper_bound,
            read_pointer,
            first_short,
            texts[client],
            _text(texts, owner),
            None if sequence == NOTHING else sequence,
            _text(texts, origin),
            principal=_text(texts, principal),
            keys_from_ms=max(0, keys_from_ms),
        )
        of_pointers[transaction_id] = opened
        of_pointers.update(dict.fromkeys(checkpoints, opened))
    for pointer, *_ in in_progress:
        opened = of_pointers[pointer]
        if opened.id == pointer:
            state.opened.add(opened)
        else:
            state.opened.add_checkpoint(opened, pointer)


def _read_invalid(
    state: TransactionState,
    pointers: list[int],
    rows: Sequence[Sequence[int]],
    columns: ColumnReader,
    texts: list[str],
) -> None:
    checkpoints = iter(columns.numbers())
    invalids = [
        Invalid(
            transaction_id,
            _TYPES[type_],
            since,
            texts[client],
            _text(texts, owner),
            None if sequence == NOTHING else sequence,
            _taken(checkpoints, count),
            _text(texts, principal),
            max(0, keys_from_ms),
        )
        for (
            transaction_id,
            type_,
            since,
            client,
            owner,
            sequence,
            count,
            principal,
            keys_from_ms,
        ) in rows
    ]
    indexes = columns.numbers()
    state.invalids.load(
        {pointer: invalids[index] for pointer, index in zip(pointers, indexes, strict=True)}
    )


def _text(texts: list[str], index: int) -> str | None:
    return None if index == NOTHING else texts[index]


def _taken(items: Iterator[Item], count: int) -> tuple[Item, ...]:
    taken = tuple(islice(items, count))
    if len(taken) != count:
        raise ValueError
    return taken


def _read_excluded(state: TransactionState, columns: ColumnReader) -> None:
    ended = {pointer: until for pointer, until in columns.rows(2)}  # noqa: C416  for its type
    truncated = {pointer: Past(since, until) for pointer, since, until in columns.rows(3)}
    state.excluded.load(ended, truncated)
    untils = [past.until for past in truncated.values()]
    state.invalids.changed_at = max([state.invalids.changed_at, *untils])


def _read_committed(
    state: TransactionState,
    committed: dict[int, tuple[bytes, ...]],
    columns: ColumnReader,
    texts: list[str],
) -> None:
    remaining = {pointer: iter(changes) for pointer, changes in committed.items()}
    for pointer, transaction_id, client, count in columns.rows(_COMMITTED_COLUMNS):
        changes = _taken(remaining[pointer], count)
        state.change_sets.add(CommittedSet(pointer, transaction_id, texts[client], changes))
