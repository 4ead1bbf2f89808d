"""Intents: a batch is recorded before it is carried out, because HBase has no atomic batches.

    intent row key  := 0xff "intent", slot uint8, part uint32, token  in the Transaction table
    token           := int64; nothing where it is 0
    part 0          := number int64, parts uint32, the first part of the intent; parts 0: it is done
    intent          := crc32 uint32 over what follows, runs; cut into parts of at least 1 MiB
    run             := flags uint8 (1 delete), table uint8, rows uint32 x row; table by its length
    row             := key uint16, value uint32, both by their lengths

Big-endian. DO NOT CHANGE: stored. The intent with the greatest number counts. Part 0 is put last,
in a call of its own, and is one row, so an intent exists whole or not at all. It counts until it is
marked as done, or until the next one exists, which is put after it was done.

The token is that of the leader that put the intent. Only intents of the greatest token count, and a
leader that takes a store over first marks an intent under its own token as done. So late intents of
an earlier leader neither count nor overwrite anything.

Part 0 is at least as large as the largest row of the runs. So if that row is above a limit of
HBase's, HBase refuses the intent, and nothing of the batch is written.

A slot is not used while a call may still put its part 0 late, hence several slots. A late part 0
has a smaller number than the greatest.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

from tables.hbase.writes import Run
from tables.store import TRANSACTION
from tms.core.errors import StoreCorrupt

SLOTS = 16
_KEY = b"\xffintent"
_PLACE = struct.Struct(">BI")
_TOKEN = struct.Struct(">q")
RANGE = (_KEY, _KEY + b"\xff")
"""The range of all rows of intents: start <= row < stop."""
_HEAD = struct.Struct(">qI")
_CHECKSUM = struct.Struct(">I")
_RUN = struct.Struct(">BBI")
_ROW = struct.Struct(">HI")
_DELETE = 1
_PART_BYTES = 1024 * 1024

Get = Callable[[str, bytes], bytes | None]
"""Returns the value of a row of HBase."""


@dataclass(frozen=True, slots=True)
class Intent:
    """The latest intent."""

    number: int
    """Counted from 1; 0 if there was none."""
    runs: Sequence[Run]
    """The runs to carry out; none if the intent is done."""


def key_of(number: int, part: int = 0, token: int = 0) -> bytes:
    """Return the row of a part of an intent."""
    return _KEY + _PLACE.pack(number % SLOTS, part) + (_TOKEN.pack(token) if token else b"")


def token_of(key: bytes) -> int:
    """Return the token in the row of a part of an intent."""
    token = key[len(_KEY) + _PLACE.size :]
    return int.from_bytes(token)


def done(number: int, token: int = 0) -> Run:
    """Return the run that marks an intent as done."""
    rows = {key_of(number, token=token): _HEAD.pack(number, 0)}
    return Run(TRANSACTION, is_delete=False, rows=rows)


def intent(number: int, runs: Sequence[Run], token: int = 0) -> list[Run]:
    """Return the runs to carry out first, so that the next server finds `runs`."""
    body = b"".join(_encoded(runs))
    whole = _CHECKSUM.pack(crc32(body)) + body
    sizes = [len(row) + len(value) for run in runs for row, value in run.rows.items()]
    row_bytes = max(sizes, default=0)
    size = max(_PART_BYTES, row_bytes - _HEAD.size - len(key_of(number, token=token)))
    first, *others = [whole[at : at + size] for at in range(0, len(whole), size)]
    head = {key_of(number, token=token): _HEAD.pack(number, len(others) + 1) + first}
    rest = {key_of(number, part, token): data for part, data in enumerate(others, 1)}
    return [Run(TRANSACTION, is_delete=False, rows=rows) for rows in (rest, head) if rows]


def _encoded(runs: Sequence[Run]) -> Iterator[bytes]:
    for run in runs:
        table = run.table.encode()
        yield _RUN.pack(run.is_delete * _DELETE, len(table), len(run.rows)) + table
        for key, value in run.rows.items():
            yield _ROW.pack(len(key), len(value)) + key + value


def latest(get: Get, token: int = 0) -> Intent:
    """Return the latest intent of a token. Raises `StoreCorrupt`."""
    number = parts = 0
    first = b""
    for slot in range(SLOTS):
        head = get(TRANSACTION, key_of(slot, token=token))
        if head is None:
            continue
        if len(head) < _HEAD.size:
            raise StoreCorrupt(table=TRANSACTION, intent_slot=slot)
        number_found, count = _HEAD.unpack_from(head)
        if number_found > number:
            number, parts, first = number_found, count, head[_HEAD.size :]
    if not parts:
        return Intent(number, [])
    others = [get(TRANSACTION, key_of(number, part, token)) or b"" for part in range(1, parts)]
    whole = b"".join([first, *others])
    if whole[: _CHECKSUM.size] != _CHECKSUM.pack(crc32(memoryview(whole)[_CHECKSUM.size :])):
        raise StoreCorrupt(table=TRANSACTION, intent=number)
    return Intent(number, list(_decoded(whole, _CHECKSUM.size)))


def _decoded(whole: bytes, at: int) -> Iterator[Run]:
    while at < len(whole):
        flags, table_bytes, count = _RUN.unpack_from(whole, at)
        at += _RUN.size
        run = Run(whole[at : at + table_bytes].decode(), bool(flags & _DELETE))
        at += table_bytes
        for _ in range(count):
            key_bytes, value_bytes = _ROW.unpack_from(whole, at)
            at += _ROW.size
            key = whole[at : at + key_bytes]
            at += key_bytes
            run.rows[key] = whole[at : at + value_bytes]
            at += value_bytes
        yield run
