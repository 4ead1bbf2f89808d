"""Stored groups are read back unchanged, and the model holds whatever members do."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    run_state_machine_as_test,
)

from tests.messaging.groups.group_machine import ByKey, GroupMachine, T, Unordered
from tests.scale import scaled
from tms.core.errors import StoreCorrupt
from tms.core.values.dead_letters import Disposition
from tms.core.values.message import MessageId
from tms.messaging.groups.edits import (
    Death,
    DyingEdit,
    FailedEdit,
    How,
    ReadEdit,
    ReleasedEdit,
    ReopenedEdit,
    SettledEdit,
    SoughtEdit,
    TakenEdit,
    Why,
    decode_row,
    encode_edit,
    encode_row,
)
from tms.messaging.groups.varints import GroupReader, ids_bytes

message_ids = st.builds(
    MessageId,
    st.integers(T, T + 3) | st.integers(0, 2**62),
    st.integers(0, 5) | st.just(65_535),
    st.just(0) | st.integers(0, 2**62),
    st.just(0) | st.integers(0, 65_535),
).map(MessageId.encode)
ascending_ids = st.lists(message_ids, unique=True, max_size=20).map(sorted)
edits = st.one_of(
    st.builds(
        lambda through, ids: ReadEdit(through, ids, [each[-8:] for each in ids]),
        st.none() | message_ids,
        ascending_ids,
    ),
    st.builds(
        TakenEdit,
        st.integers(0, 2**62),
        st.integers(0, 2**32 - 1),
        st.text(max_size=5),
        st.none() | st.text(max_size=5),
        st.none() | st.integers(0, 2**53),
        ascending_ids,
    ),
    st.builds(SettledEdit, st.sampled_from(How), ascending_ids),
    st.builds(
        FailedEdit,
        st.sampled_from(Why),
        st.integers(0, 2**62),
        ascending_ids,
        st.text(max_size=5),
    ),
    st.builds(ReleasedEdit, ascending_ids),
    st.builds(
        DyingEdit,
        st.builds(
            Death,
            st.sampled_from(Disposition),
            st.integers(0, 2**62),
            st.text(max_size=5),
            st.text(max_size=5),
        ),
        ascending_ids,
    ),
    st.builds(
        lambda redriven, handled, ids: ReopenedEdit(
            redriven, handled, ids, [each[-8:] for each in ids]
        ),
        st.none() | message_ids,
        ascending_ids,
        ascending_ids,
    ),
    st.builds(SoughtEdit, st.none() | message_ids, st.integers(0, 2**62)),
)


@given(ascending_ids)
def test_ids_come_back(ids: list[bytes]) -> None:
    assert GroupReader(ids_bytes(ids)).ids() == ids


@given(st.lists(edits, max_size=5))
def test_rows_come_back_and_damage_is_found(given_edits: list[ReadEdit]) -> None:
    row = encode_row([encode_edit(each) for each in given_edits])
    assert decode_row(row, by_key=True) == given_edits
    for damaged in (row[:-1], row + b"\0", b"\2" + row[1:], row[:-1] + bytes((row[-1] ^ 1,)), b""):
        with pytest.raises(StoreCorrupt):
            decode_row(damaged, by_key=True)


@pytest.mark.parametrize("machine", [Unordered, ByKey])
def test_the_rules_hold_whatever_members_do(machine: type[GroupMachine]) -> None:
    run_state_machine_as_test(
        machine, settings=settings(max_examples=scaled(30), stateful_step_count=40)
    )
