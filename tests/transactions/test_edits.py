"""Edits are decoded as they were encoded, and damage is always detected."""

import struct
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tms.core.errors import StoreCorrupt
from tms.core.values.transaction import TransactionType
from tms.transactions.edits import Edit, EditKind, decode_row, encode_edit, encode_row

INT64 = st.integers(-(2**63), 2**63 - 1)
ANY_TEXT = st.text(st.characters(), max_size=20) | st.just("\ud800")
EDITS = st.builds(
    Edit,
    kind=st.sampled_from(EditKind),
    write_pointer=INT64,
    expires_ms=INT64,
    commit_pointer=INT64,
    can_commit=st.booleans(),
    changes=st.lists(st.binary(max_size=10), max_size=3).map(tuple),
    visibility_upper_bound=INT64,
    type=st.none() | st.sampled_from(TransactionType),
    truncated=st.lists(INT64, max_size=3).map(tuple),
    truncate_before_ms=INT64,
    parent=INT64,
    at_once=st.booleans(),
    timed_out=st.booleans(),
    time_ms=INT64,
    timeout_s=st.integers(0, 2**31 - 1),
    sequence=st.none() | st.integers(0, 2**63 - 1),
    owner=st.none() | ANY_TEXT.filter(bool),
    client=ANY_TEXT,
    origin=st.none() | ANY_TEXT.filter(bool),
    principal=st.none() | ANY_TEXT,
)
ROW = encode_row(
    [
        Edit(EditKind.STARTED, 2**60, type=TransactionType.SHORT, owner="o", client="c"),
        Edit(EditKind.COMMITTING, 2**60, changes=(b"one", b"")),
        Edit(EditKind.COMMITTED, 2**60, owner="o", sequence=1, origin="run"),
        Edit(EditKind.STARTED, 2**60 + 1, type=TransactionType.SHORT, principal="ann"),
        Edit(EditKind.TRUNCATED, truncated=(1, 2)),
    ]
)


@given(st.lists(EDITS, max_size=4))
def test_a_row_comes_back_as_it_was(edits: list[Edit]) -> None:
    assert decode_row(7, encode_row(edits)) == edits


def test_a_start_as_bytes() -> None:
    edit = Edit(
        EditKind.STARTED,
        write_pointer=1,
        expires_ms=2,
        visibility_upper_bound=3,
        type=TransactionType.LONG,
        timeout_s=4,
        sequence=5,
        owner="own",
        client="cl",
    )

    assert encode_edit(edit) == b"".join(
        (
            b"\x01",
            struct.pack(
                ">qiqq?i", 1, 0, 2, 0, False, 0
            ),  # without changes, as in Tephra's first version
            struct.pack(">q", 3),  # its second
            struct.pack(">iiq", 1, 0, 0),  # its third
            struct.pack(">qi", 0, -1),  # its fourth
            struct.pack(">BqiqHH", 0, 0, 4, 5, 3, 2),
            b"own",
            b"cl",
        )
    )


@pytest.mark.parametrize("at", range(len(ROW)))
def test_each_flipped_byte_is_damage(at: int) -> None:
    for flip in (0x01, 0x80, 0xFF):
        damaged = bytearray(ROW)
        damaged[at] ^= flip
        with pytest.raises(StoreCorrupt) as caught:
            decode_row(7, bytes(damaged))
        assert caught.value.detail == {"table": "transaction", "sequence": 7}


@pytest.mark.parametrize("length", range(len(ROW)))
def test_each_missing_end_is_damage(length: int) -> None:
    with pytest.raises(StoreCorrupt):
        decode_row(7, ROW[:length])


@given(st.data())
def test_nonsense_with_a_right_checksum_is_damage_or_edits(data: st.DataObject) -> None:
    body = bytearray(ROW[5:])
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(body[: data.draw(st.integers(0, len(body)))])
    for nonsense in (bytes(body), cut, bytes(body) + b"\x00"):
        row = struct.pack(">BI", 1, crc32(nonsense)) + nonsense
        try:
            edits = decode_row(7, row)
        except StoreCorrupt:
            continue
        assert all(isinstance(edit, Edit) for edit in edits)
