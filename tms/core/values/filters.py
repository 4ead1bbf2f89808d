"""Filters: choose messages by key and headers, without decoding the messages.

Messages with neither, the unframed ones, either all match or none does, which is decided once. A
framed message is looked at as an item of a block (`tms.core.values.framed_items`): its headers are
read only if its key does not decide, and its payload never.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from tms.core.errors import InvalidRequest, StoreCorrupt
from tms.core.values.avro_lengths import read_length
from tms.core.values.filter_expressions import (
    Either,
    Every,
    Expression,
    FieldTest,
    Not,
    Operator,
)
from tms.core.values.filter_parser import parse
from tms.core.values.message import ID_BYTES, MessageBlock
from tms.core.values.varints import MORE_FOLLOWS

_KEPT_MAX: Final = 256
_ID_END: Final = 1 + ID_BYTES
_Fields = Sequence[bytes | None]
"""The key, then the headers that a filter names; None for a missing one."""
_Matches = Callable[[_Fields], bool]


class Filter:
    """A parsed filter. Two filters with equal texts are equal."""

    __slots__ = ("_by_headers", "_by_key", "_names", "matches_unframed", "text")

    def __init__(self, text: str) -> None:
        """Parse `text`. Raises `InvalidRequest` (invalid_filter)."""
        self.text = text
        expression = parse(text)
        names = {name: at for at, name in enumerate(sorted(_headers_of(expression)), 1)}
        self._names = {name.encode(): at for name, at in names.items()}
        parts = expression.parts if isinstance(expression, Every) else (expression,)
        by_key = [part for part in parts if not _headers_of(part)]
        by_headers = [part for part in parts if _headers_of(part)]
        self._by_key = _every([_compiled(part, names) for part in by_key])
        self._by_headers = _every([_compiled(part, names) for part in by_headers])
        self.matches_unframed = self._matches([None] * (1 + len(names)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Filter({self.text!r})"

    def _matches(self, fields: _Fields) -> bool:
        by_key, by_headers = self._by_key, self._by_headers
        return (by_key is None or by_key(fields)) and (by_headers is None or by_headers(fields))

    def matches_message(self, key: bytes | None, headers: Mapping[str, bytes]) -> bool:
        """Whether a decoded message matches."""
        return self._matches([key, *(headers.get(name.decode()) for name in self._names)])

    def _matches_item(self, items: bytes, at: int) -> bool:
        """Whether the framed message whose key begins at `at` matches. Raises as `read_length`."""
        key = None
        if items[at]:
            size, start = read_length(items, at + 1)
            at = start + size
            key = items[start:at]
        else:
            at += 1
        by_headers = self._by_headers
        if self._by_key is not None and not self._by_key((key,)):
            return False
        if by_headers is None:
            return True
        names = self._names
        fields: list[bytes | None] = [key, *[None] * len(names)]
        count, at = read_length(items, at)
        for _ in range(count):
            # Most lengths take one byte: a call for each would double the time.
            size = items[at]
            if size < MORE_FOLLOWS:
                start = at + 1
                at = start + (size >> 1)
            else:
                size, start = read_length(items, at)
                at = start + size
            slot = names.get(items[start:at])
            size = items[at]
            if size < MORE_FOLLOWS:
                start = at + 1
                at = start + (size >> 1)
            else:
                size, start = read_length(items, at)
                at = start + size
            if slot is not None:
                fields[slot] = items[start:at]
        return by_headers(fields)

    def matching(self, block: MessageBlock, limit: int) -> tuple[MessageBlock, bytes | None]:
        """Return the messages of a block that match, at most `limit` (>= 1) of them.

        Also return the id of the last one if that is the limit, otherwise None. The items are a
        slice of the block's if the matching messages follow one another. Raises `StoreCorrupt`.
        """
        if not block.framed and (not self.matches_unframed or block.count < limit):
            return (block if self.matches_unframed else _NOTHING), None
        items, starts = block.items, block.starts
        if starts is None:
            starts = [0, *block.payload_spans()[1]]
        first = starts[0]
        indexes = self._indexes(block, starts, first, limit)
        if not indexes:
            return _NOTHING, None
        framed = frozenset(block.framed)
        last = indexes[-1]
        last_at = starts[last] - first
        last_id = items[last_at + 1 : last_at + _ID_END] if len(indexes) == limit else None
        parts: list[bytes] = []
        run_start = indexes[0]
        for at, index in enumerate(indexes, 1):
            if at == len(indexes) or indexes[at] != index + 1:
                parts.append(items[starts[run_start] - first : starts[index + 1] - first])
                run_start = indexes[at] if at < len(indexes) else 0
        still_framed = [at for at, index in enumerate(indexes) if index in framed]
        return MessageBlock(len(indexes), b"".join(parts), still_framed), last_id

    def _indexes(
        self, block: MessageBlock, starts: Sequence[int], first: int, limit: int
    ) -> list[int]:
        """Return the indexes of the first `limit` messages that match, ascending."""
        items, matches = block.items, self._matches_item
        key_at = _ID_END - first
        indexes: list[int] = []
        next_index = 0
        index = 0
        try:
            for index in block.framed:
                if self.matches_unframed and next_index < index:
                    indexes += range(next_index, index)
                next_index = index + 1
                if matches(items, starts[index] + key_at):
                    indexes.append(index)
                    if len(indexes) >= limit:
                        break
        except (IndexError, ValueError):
            at = starts[index] - first
            raise StoreCorrupt(item_start=items[at : at + _ID_END].hex()) from None
        if self.matches_unframed:
            indexes += range(next_index, block.count)
        return indexes[:limit]


_NOTHING: Final = MessageBlock(0, b"")


@lru_cache(_KEPT_MAX)
def filter_of(text: str) -> Filter:
    """Return the filter that `text` says. Raises `InvalidRequest` (invalid_filter)."""
    return Filter(text)


def is_filter(text: str) -> bool:
    """Whether this version can parse a filter."""
    try:
        return bool(filter_of(text))
    except InvalidRequest:
        return False


def _headers_of(expression: Expression) -> set[str]:
    """Return the names of the headers that an expression tests."""
    match expression:
        case FieldTest(header):
            return set() if header is None else {header}
        case Not(part):
            return _headers_of(part)
        case Every(parts) | Either(parts):
            return {name for part in parts for name in _headers_of(part)}


def _every(tests: Sequence[_Matches]) -> _Matches | None:
    """Return the test that all `tests` succeed; None if there are none."""
    match tests:
        case []:
            return None
        case [one]:
            return one
        case [one, other]:
            return lambda fields: one(fields) and other(fields)

    return lambda fields: all(test(fields) for test in tests)


def _compiled(expression: Expression, names: Mapping[str, int]) -> _Matches:
    """Return the test of an expression; `names` has the places of the headers."""
    match expression:
        case FieldTest(header, operator, value):
            return _test(0 if header is None else names[header], operator, value)
        case Not(part):
            test = _compiled(part, names)
            return lambda fields: not test(fields)
        case Every(parts):
            every = _every([_compiled(part, names) for part in parts])
            assert every is not None
            return every
        case Either(parts):
            tests = [_compiled(part, names) for part in parts]
            return lambda fields: any(test(fields) for test in tests)


def _test(at: int, operator: Operator, value: bytes) -> _Matches:
    match operator:
        case Operator.EXISTS:
            return lambda fields: fields[at] is not None
        case Operator.EQUALS:
            return lambda fields: fields[at] == value
        case Operator.DIFFERS:
            return lambda fields: fields[at] != value
        case Operator.BEGINS:

            def begins(fields: _Fields) -> bool:
                found = fields[at]
                return found is not None and found.startswith(value)

            return begins
