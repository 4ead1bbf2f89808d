"""A state is restored from its snapshot unchanged, and Tephra can read the snapshot."""

import struct
from io import BytesIO
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transactions.living import FIRST, LONG, NOW_MS, Living
from tms.core.errors import StoreCorrupt
from tms.core.limits import Limits
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.transaction import Transaction
from tms.transactions.owners import LastCommit
from tms.transactions.snapshot_codec import decode_snapshot, encode_snapshot
from tms.transactions.varints import (
    VarintReader,
    encode_change_sets,
    encode_long,
    encode_longs,
)

LIMITS = Limits()
INT64 = st.integers(-(2**63), 2**63 - 1)
WITHOUT_ORIGINS = (
    "0884a0abfef9628280d0e2c6bfce972f8089cae3c6bfce972f00028089cae3c6bfce972fe2f4aefef962"
    "8280d0e2c6bfce972f000000000001000000030000000000000001000000000000000100000000000000"
    "0163706f00000001000000000000001e0000000117979cfe362a0001000000017fffffffffffffff0000"
    "000100000000000000000000000100000000000000010000000100000000000000010000000000000000"
    "000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "000000000000000000000000000000000000000000000000000117979cfe362a00010000000001000000"
    "00000000020000000100000000000000040000000117979cfe362a0001000000010000018bcfe56800d7"
    "bf54c6"
)
"""A snapshot of the extension's version 1."""
WITHOUT_PRINCIPALS = (
    "0800a280a0bbd29df1fa3180899abcd29df1fa31049680a0bbd29df1fa319880a0bbd29df1fa31000a82"
    "80a0bbd29df1fa31e094e685e3688080a0bbd29df1fa3100008480a0bbd29df1fa3180b095d8e3688080"
    "a0bbd29df1fa3102028680a0bbd29df1fa31008680a0bbd29df1fa3180b095d8e3688080a0bbd29df1fa"
    "3104008880a0bbd29df1fa31908ee385e3688080a0bbd29df1fa31000080899abcd29df1fa31e294e685"
    "e3688080a0bbd29df1fa31000000028280a0bbd29df1fa310412616e6e6f756e6365640a747769636500"
    "00048e80a0bbd29df1fa31040a6b657920300000a280a0bbd29df1fa3104027802790000020000000c00"
    "000000000000010000000000000001000000000000000500000000000000010000000000000000000000"
    "000000000100000000000000010000000000000001000000000000000100000000000000070000000000"
    "0000010000000000000005616f72756e203162707163646174206f6e63657272756e2032000000040000"
    "00000000001e00000000000151800000000000000005000000000000001e0000000418fae27693b40000"
    "18fae27693b4000018fae27693b4000018fae27693b40011000000047fffffffffffffff18fae27693b4"
    "000118fae27693b4000118fae27693b40001000000040000000000000000000000000000000300000000"
    "000000040000000000000004000000040000000000000001ffffffffffffffff0000000000000005ffff"
    "ffffffffffff000000040000000000000004ffffffffffffffffffffffffffffffffffffffffffffffff"
    "000000040000000000000002ffffffffffffffffffffffffffffffffffffffffffffffff0000000218fa"
    "e27693b4000b18fae27693b4000c00000002000000000000000100000000000000000000000218fae276"
    "93b4000d18fae27693b4000d000000020000000000000004000000000000000400000002ffffffffffff"
    "ffff000000000000000600000002ffffffffffffffff0000000000000000000000020000000000000000"
    "00000000000000010000000118fae27693b4000d00000002000000000000000000000000000000010000"
    "000218fae27693b4000718fae27693b400110000000218fae27693b4000518fae27693b4001000000002"
    "000000000000000700000000000000080000000200000000000000020000000000000002000000000000"
    "00000000000000000000000000000000000618fae27693b4000518fae27693b4000718fae27693b40009"
    "18fae27693b4000e18fae27693b4001118fae27693b4000f000000020000000000020000000000000009"
    "000000000000000a00000002000000000000000700000000000000010000000218fae27693b4001018fa"
    "e27693b4001100000002000001a3185c5000000001a3185c500000000002ffffffffffffffff00000000"
    "0000000ba9e76ff8"
)
"""A snapshot of the extension's version 2: the state of `eventful` without principals."""
ANN = Caller("ann")


def eventful(caller: Caller = ANN) -> Living:
    """Return a state that contains every kind of entry, some of them owned by a caller."""
    living = Living()
    open_ones = [
        living.start(client="a", owner="o", sequence=4, origin="run 1", caller=caller),
        living.checkpoint(living.start(LONG, client="b")),
        living.start(timeout_s=5, owner="p"),
    ]
    for number in range(3):
        transaction = living.checkpoint(living.start(client="c"))
        living.can_commit(transaction, b"key %d" % number, b"") if number == 0 else None
        living.commit(transaction)
    living.can_commit(open_ones[0], b"announced", b"twice")
    invalid = [
        living.start(LONG, caller=caller),
        living.checkpoint(living.start(owner="q", sequence=0)),
    ]
    for transaction in invalid:
        living.invalidate(transaction)
    living.abort(living.start())
    reader = living.start()
    living.truncate(invalid[1].write_pointer)
    living.at_once("at once", 7, [b"x", b"y"], "d", caller)
    living.commit(living.start(owner="r", sequence=1, origin="run 2"))
    living.now_ms += 1
    living.commit(reader)
    living.start()
    return living


def java_snapshot(data: bytes) -> dict[str, object]:
    """Read a snapshot as SnapshotCodecV4 does with its BinaryDecoder."""
    source = BytesIO(data)

    def number() -> int:
        value = shift = 0
        while True:
            byte = source.read(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)

    def items(read: object) -> list[object]:
        found = []
        while count := number():
            found += [read() for _ in range(count)]  # type: ignore[operator]
        return found

    def change_set() -> tuple[int, list[object]]:
        return number(), items(lambda: source.read(number()))

    return {
        "version": number(),
        "timestamp": number(),
        "read_pointer": number(),
        "write_pointer": number(),
        "invalid": items(number),
        "in_progress": items(
            lambda: (number(), number(), number(), number(), tuple(items(number)))
        ),
        "committing": items(change_set),
        "committed": items(change_set),
    }


def test_tephra_reads_it() -> None:
    living = Living()
    long = living.checkpoint(living.start(LONG))
    short = living.start()
    invalid = living.start()
    living.invalidate(invalid)
    committed = living.start()
    living.can_commit(committed, b"done")
    living.commit(committed)
    living.can_commit(short, b"soon")
    day = NOW_MS + 86_400_000

    assert java_snapshot(encode_snapshot(living.state, 99)) == {
        "version": 4,
        "timestamp": 99,
        "read_pointer": committed.transaction_id,
        "write_pointer": committed.transaction_id,
        "invalid": [invalid.transaction_id],
        "in_progress": [
            (long.transaction_id, day, FIRST, 1, (long.write_pointer,)),
            (long.write_pointer, day, FIRST, 2, ()),
            (short.transaction_id, NOW_MS + 30_000, FIRST, 0, ()),
        ],
        "committing": [(short.transaction_id, [b"soon"])],
        "committed": [(committed.transaction_id + 1, [b"done"])],
    }


def test_an_empty_state_comes_back() -> None:
    empty = Living()

    assert java_snapshot(empty.snapshot())["read_pointer"] == FIRST
    assert encode_snapshot(decode_snapshot(empty.snapshot(), LIMITS), 0) == empty.snapshot()


def test_one_from_before_owners_had_origins_is_read() -> None:
    state = decode_snapshot(bytes.fromhex(WITHOUT_ORIGINS), LIMITS)

    assert state.owners.last_commits == {
        "o": LastCommit(4, 1_700_000_000_000_000_001, 1_700_000_000_000, None)
    }
    assert [(o.owner, o.sequence, o.origin, o.client) for o in state.opened] == [
        ("p", 1, None, "c")
    ]


def test_one_from_before_there_were_principals_is_read_and_written_alike() -> None:
    old = bytes.fromhex(WITHOUT_PRINCIPALS)
    state = decode_snapshot(old, LIMITS)

    assert {opened.principal for opened in state.opened} == {None}
    assert encode_snapshot(state, 0) == old == eventful(ANYBODY).snapshot()


def test_principals_come_back() -> None:
    state = decode_snapshot(eventful().snapshot(), LIMITS)

    principals = {opened.owner: opened.principal for opened in state.opened}
    assert principals == {"o": "ann", "p": None, None: None}
    assert [info.principal for info in state.infos_invalid()] == ["ann", None]
    whose = {owner: last.principal for owner, last in state.owners.last_commits.items()}
    assert whose == {"at once": "ann", "r": None}


def test_an_eventful_state_comes_back_and_continues_alike() -> None:
    living = eventful()
    copy = Living(state=decode_snapshot(living.snapshot(), LIMITS))
    copy.now_ms = living.now_ms
    assert copy.snapshot() == living.snapshot()

    def transactions(one: Living) -> list[Transaction]:
        return [one.state.transaction(opened.id) for opened in one.state.opened]

    assert transactions(copy) == transactions(living)
    assert copy.state.infos_in_progress() == living.state.infos_in_progress()
    assert copy.state.infos_invalid() == living.state.infos_invalid()
    for one in (copy, living):
        one.now_ms += 31_000
        one.expire()
        one.commit(one.start(owner="o", sequence=5))
    assert copy.snapshot() == living.snapshot()
    assert copy.edits == living.edits[-len(copy.edits) :]


def test_fewer_outcomes_are_kept_if_the_limit_is_lower_now() -> None:
    living = eventful()
    state = decode_snapshot(living.snapshot(), Limits(transaction_outcomes_max=2))

    assert list(state.outcomes.order) == list(living.state.outcomes.order)[-2:]
    assert set(state.outcomes.codes) == set(state.outcomes.order)


def test_each_flipped_byte_is_damage() -> None:
    data = eventful().snapshot()
    for at in range(len(data)):
        for flip in (0x01, 0x80):
            damaged = bytearray(data)
            damaged[at] ^= flip
            with pytest.raises(StoreCorrupt):
                decode_snapshot(bytes(damaged), LIMITS)


def test_each_missing_end_is_damage() -> None:
    data = eventful().snapshot()
    for length in range(len(data)):
        with pytest.raises(StoreCorrupt):
            decode_snapshot(data[:length], LIMITS)


@given(st.data())
def test_nonsense_with_a_right_checksum_raises_nothing_else(data: st.DataObject) -> None:
    body = bytearray(eventful().snapshot()[:-4])
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(body[: data.draw(st.integers(0, len(body)))])
    for nonsense in (bytes(body), cut, bytes(body) + b"\x00"):
        try:
            decode_snapshot(nonsense + struct.pack(">I", crc32(nonsense)), LIMITS)
        except StoreCorrupt:
            continue


@given(st.lists(INT64), st.dictionaries(INT64, st.lists(st.binary(max_size=200))))
def test_varints_come_back(numbers: list[int], sets: dict[int, list[bytes]]) -> None:
    reader = VarintReader(encode_longs(numbers) + encode_change_sets(sets) + encode_long(-5))

    assert reader.longs() == numbers
    assert reader.change_sets() == {key: tuple(changes) for key, changes in sets.items()}
    assert reader.long() == -5


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (-64, "7f"),
        (64, "8001"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
        (1_800_000_000_000_000_000, "8080a0bbd29df1fa31"),
    ],
)
def test_varints_are_avros(number: int, encoded: str) -> None:
    assert encode_long(number).hex() == encoded


def test_the_least_times_of_messages_are_kept() -> None:
    """Only a state with such times is written in the version for them; older readers skip them."""
    living = eventful()
    before = encode_snapshot(living.state, NOW_MS)
    dead = living.checkpoint(living.start(keys_from_ms=7))
    living.invalidate(dead)
    opened = living.checkpoint(living.start(keys_from_ms=9))
    data = encode_snapshot(living.state, NOW_MS)
    state = decode_snapshot(data, LIMITS)

    assert [state.opened.by_pointer[p].keys_from_ms for p in _pointers(opened)] == [9, 9]
    assert [state.invalids[p].keys_from_ms for p in _pointers(dead)] == [7, 7]
    assert encode_snapshot(state, NOW_MS) == data
    again = decode_snapshot(before, LIMITS)
    assert {opened.keys_from_ms for opened in again.opened} == {0}
    assert {invalid.keys_from_ms for invalid in again.invalids.values()} == {0}


def _pointers(transaction: Transaction) -> tuple[int, ...]:
    return transaction.transaction_id, transaction.write_pointer
