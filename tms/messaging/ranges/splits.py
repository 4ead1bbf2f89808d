"""Splits a range of a topic into parts of about equal size, without reading its messages.

The sources of sizes, and their use:
1. For entries in the cache, the sizes of the blocks, and the places of references.
2. For entries only in the table, the store's estimates between any two keys. Bisection finds keys
   that quarter the parts. If the Payload table has payloads, and the entries are so few that they
   can be read at once, they are read to find the references.
3. For a reference's stored messages, the store's estimate, or the size that this process has stored
   itself, whichever is more. A large one is split within.
4. If all that gives fewer pieces than parts, and the range is small, the messages themselves.
If the store reports no sizes (HBase), parts cover equal times.

`Splitting` is used in two steps in a read thread, because it blocks; between them the event loop's
thread adds what it knows about the write pointers of the pieces. Everything else here is pure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

from tms.core.values.entries import Entries
from tms.core.values.message import (
    ID_BYTES,
    KEY_BYTES,
    LAST_ID,
    NO_PAYLOAD_KEY,
    MessageBlock,
    key_after,
)
from tms.core.values.ranges import Split
from tms.messaging.cache import Piece
from tms.messaging.recent_store_sizes import StoredRun

if TYPE_CHECKING:
    from tables.store_tables import StoreTables

PARTS_MAX = 1_000
_PIECES_A_PART = 4
_READ_BYTES_MAX = 8 * 1024 * 1024
_READ_ROWS_MAX = 50_000
_PAGE_ROWS = 10_000
_LAST_KEY = LAST_ID[:KEY_BYTES]


class SplittingStopped(Exception):
    """Raised in the thread that splits: the caller no longer waits for the parts."""


class _Placed(NamedTuple):
    """A number of bytes from a position on."""

    position: bytes
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Splitting:
    """A range of a topic that is to be split into at most `parts`."""

    tables: "StoreTables"
    prefix: bytes
    start: bytes
    end: bytes
    parts: int
    stopped: Event = field(default_factory=Event)
    """Setting it ends the work in the thread, which then raises `SplittingStopped`."""

    def _check(self) -> None:
        if self.stopped.is_set():
            raise SplittingStopped

    def pieces(self, floor: bytes, recent: Iterable[Piece]) -> list[Piece] | None:
        """Return the range in pieces, None if the store reports no sizes. Blocks.

        `recent` are the pieces from the key `floor` on.
        """
        first_key = self.tables.messages.first_key(self.prefix, self.start[:KEY_BYTES])
        stop_key = _after(self.end)
        if first_key is None or first_key >= stop_key:
            return []
        older = self._older(first_key, min(stop_key, floor))
        return None if older is None else [*older, *(p for p in recent if p.key < stop_key)]

    def _older(self, first_key: bytes, stop_key: bytes) -> list[Piece] | None:
        """Return the pieces that are only in the table, None if the store reports no sizes."""
        if first_key >= stop_key:
            return []
        messages = self.tables.messages

        def size_to(key: bytes) -> int:
            self._check()
            return messages.size_bytes(self.prefix, first_key, key)

        total = size_to(stop_key)
        if total <= _READ_BYTES_MAX and not self.tables.payloads.is_empty(self.prefix):
            read = self._read(first_key, stop_key)
            if read is not None:
                return read
        if total == 0:
            return None
        count = self.parts * _PIECES_A_PART
        return list(_bisected(first_key, stop_key, size_to, total, count))

    def _read(self, first_key: bytes, stop_key: bytes) -> list[Piece] | None:
        """Return the entries in pieces, each reference as one; None if there are too many."""
        pieces: list[Piece] = []
        rows = size = 0
        next_key: bytes | None = first_key
        while next_key is not None:
            self._check()
            if rows >= _READ_ROWS_MAX or size >= _READ_BYTES_MAX:
                return None
            entries, next_key = self.tables.messages.read(
                self.prefix,
                next_key,
                limit=_PAGE_ROWS,
                bytes_max=_READ_BYTES_MAX,
                stop_key=stop_key,
            )
            rows += entries.count
            size += len(entries.items)
            pieces += _pieces_of(entries)
        return pieces

    def splits(
        self, pieces: Sequence[Piece] | None, noted: Mapping[int, Sequence[StoredRun]]
    ) -> list[Split]:
        """Return the parts. Blocks. `noted` has the runs that memory knows, by write pointer."""
        if pieces is None:
            return _grouped(self._by_time(), self.start, self.end, self.parts)
        sized = [self._with_stored(piece, noted) for piece in pieces]
        share = sum(piece.size_bytes for piece in sized) // self.parts
        placed: list[_Placed] = []
        for piece in sized:
            pointer = piece.write_pointer
            if pointer is None or piece.size_bytes <= share // 2:
                placed.append(_Placed(piece.key + NO_PAYLOAD_KEY, piece.size_bytes))
                continue
            runs = self._runs(pointer, piece.size_bytes, noted.get(pointer, ()))
            # The first stands for the reference itself, so that nothing is before it.
            keys = [NO_PAYLOAD_KEY, *(run.first_key for run in runs[1:])]
            sizes = [run.size_bytes for run in runs]
            placed += [
                _Placed(piece.key + key, size) for key, size in zip(keys, sizes, strict=True)
            ]
        within = list(_within(placed, self.start, self.end))
        size = sum(piece.size_bytes for piece in within)
        if len(within) < self.parts and size <= _READ_BYTES_MAX:
            read = self._messages()
            if read is not None:
                within = list(_within(read, self.start, self.end))
        return _grouped(within, self.start, self.end, self.parts)

    def _messages(self) -> list[_Placed] | None:
        """Return the range in runs of few messages; None if it is too large for that. Blocks."""
        placed: list[_Placed] = []
        size = 0
        for block in self._blocks():
            size += len(block.items)
            if size > _READ_BYTES_MAX:
                return None
            step = max(1, block.count // (self.parts * _PIECES_A_PART))
            placed += _runs_of(block, step)
        return placed

    def _blocks(self) -> Iterator[MessageBlock]:
        """Yield the messages of the range, with stored ones in place of their references."""
        next_key: bytes | None = self.start[:KEY_BYTES]
        while next_key is not None:
            self._check()
            entries, next_key = self.tables.messages.read(
                self.prefix,
                next_key,
                limit=_PAGE_ROWS,
                bytes_max=_READ_BYTES_MAX,
                stop_key=_after(self.end),
            )
            if not entries.references:
                yield entries.block(0, entries.count)
                continue
            assert entries.pointers is not None
            for index, pointer in enumerate(entries.pointers):
                if index not in entries.references:
                    yield entries.block(index, index + 1)
                    continue
                key: bytes | None = NO_PAYLOAD_KEY
                while key is not None:
                    self._check()
                    block, key = self.tables.payloads.read(
                        self.prefix,
                        abs(pointer),
                        entries.key(index),
                        key,
                        limit=_PAGE_ROWS,
                        bytes_max=_READ_BYTES_MAX,
                    )
                    yield block

    def _by_time(self) -> list[_Placed]:
        first_key = self.tables.messages.first_key(self.prefix, self.start[:KEY_BYTES])
        assert first_key is not None, "there are entries, but no sizes"
        low, high = int.from_bytes(first_key), int.from_bytes(_after(self.end))
        keys = sorted({low + (high - low) * number // self.parts for number in range(self.parts)})
        placed = [_Placed(_key(key) + NO_PAYLOAD_KEY, 0) for key in keys]
        return list(_within(placed, self.start, self.end))

    def _with_stored(self, piece: Piece, noted: Mapping[int, Sequence[StoredRun]]) -> Piece:
        """Return the piece with the size of what it refers to."""
        self._check()
        pointer = piece.write_pointer
        if pointer is None:
            return piece
        estimated = self.tables.payloads.size_bytes(self.prefix, pointer, NO_PAYLOAD_KEY, _LAST_KEY)
        recorded = sum(run.size_bytes for run in noted.get(pointer, ()))
        return piece._replace(size_bytes=max(estimated, recorded))

    def _runs(
        self, write_pointer: int, size: int, noted: Sequence[StoredRun]
    ) -> Sequence[StoredRun]:
        """Return a reference's stored messages in runs, by their keys in the Payload table."""
        if size == sum(run.size_bytes for run in noted):
            return noted
        payloads, prefix = self.tables.payloads, self.prefix
        first_key = payloads.first_key(prefix, write_pointer)
        last_key = payloads.last_key(prefix, write_pointer)
        if first_key is None or last_key is None:
            return [StoredRun(NO_PAYLOAD_KEY, size)]

        def size_to(key: bytes) -> int:
            self._check()
            return payloads.size_bytes(prefix, write_pointer, first_key, key)

        stop_key = key_after(last_key)
        count = self.parts * _PIECES_A_PART
        pieces = _bisected(first_key, stop_key, size_to, size_to(stop_key), count)
        return [StoredRun(piece.key, piece.size_bytes) for piece in pieces]


def _runs_of(block: MessageBlock, step: int) -> Iterator[_Placed]:
    """Yield runs of `step` messages by the id of the first."""
    ends = block.payload_spans()[1]
    for first in range(0, block.count, step):
        at = ends[first - 1] if first else 0
        stop = ends[min(first + step, block.count) - 1]
        yield _Placed(block.items[at + 1 : at + 1 + ID_BYTES], stop - at)


def _after(end: bytes) -> bytes:
    key = end[:KEY_BYTES]
    return key if end[KEY_BYTES:] == NO_PAYLOAD_KEY else key_after(key)


def _pieces_of(entries: Entries) -> Iterator[Piece]:
    start = 0
    for index in (*sorted(entries.references), entries.count):
        if start < index:
            offsets = entries.offsets or (0, len(entries.items))
            size = offsets[index if entries.offsets else 1] - offsets[start]
            yield Piece(entries.key(start), size)
        if index < entries.count:
            assert entries.pointers is not None
            yield Piece(entries.key(index), 0, abs(entries.pointers[index]))
        start = index + 1


def _bisected(
    first_key: bytes, stop_key: bytes, size_to: Callable[[bytes], int], total: int, count: int
) -> Iterator[Piece]:
    """Yield `count` pieces of about equal size between the keys; `size_to` ascends."""
    low, high = int.from_bytes(first_key), int.from_bytes(stop_key)
    before, size_before = low, 0
    for number in range(1, count + 1):
        size = total * number // count
        at = _first_at(size, before, high, size_to) if number < count else high
        size = size_to(_key(at))
        if at > before:
            yield Piece(_key(before), size - size_before)
            before, size_before = at, size


def _first_at(size: int, low: int, high: int, size_to: Callable[[bytes], int]) -> int:
    """Return the first key, as a number, up to which there are `size` bytes, or `high`."""
    while low < high:
        middle = (low + high) // 2
        if size_to(_key(middle)) < size:
            low = middle + 1
        else:
            high = middle
    return low


def _key(number: int) -> bytes:
    return number.to_bytes(KEY_BYTES)


def _within(placed: Sequence[_Placed], start: bytes, end: bytes) -> Iterator[_Placed]:
    """Yield the part within the range; a piece that begins before it counts from its start."""
    for index, piece in enumerate(placed):
        next_position = placed[index + 1].position if index + 1 < len(placed) else end
        if next_position > start and piece.position < end:
            yield _Placed(max(piece.position, start), piece.size_bytes)


def _grouped(placed: Sequence[_Placed], start: bytes, end: bytes, parts: int) -> list[Split]:
    """Return at most `parts` runs of the pieces, each as near to its share as they allow."""
    total = sum(piece.size_bytes for piece in placed)
    starts: list[bytes] = []
    sizes: list[int] = []
    before, number = 0, -1
    for index, piece in enumerate(placed):
        # By size, or by number if no size is known.
        middle, whole = (before + piece.size_bytes // 2, total) if total else (index, len(placed))
        share = min(parts - 1, middle * parts // whole)
        if share > number:
            number = share
            starts.append(piece.position)
            sizes.append(0)
        sizes[-1] += piece.size_bytes
        before += piece.size_bytes
    bounds = [start, *starts[1:], end]
    return [
        Split(low, high, size)
        for low, high, size in zip(bounds[:-1], bounds[1:], sizes or [0], strict=True)
    ]
