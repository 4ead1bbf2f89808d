"""Ids and versions have bounds, in requests and in the log; no caller can use them all up."""

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.registry.registries import TOPIC, Called, Registries, fixed
from tms.core.services.schemas import NUMBER_MAX
from tms.core.values.caller import REGISTRY, Caller
from tms.core.values.frame import bodies_of
from tms.core.values.message import Message
from tms.registry.deletion import LATEST, parse_version
from tms.registry.registration import Registered
from tms.registry.state.knowledge import Knowledge
from tms.registry.state.records import CountersWritten, Entry, Origin
from tms.registry.state.refusal import TOO_LARGE, RegistryError
from tms.registry.state.registry_state import IMPORTED_ID_MAX, State

pytestmark = pytest.mark.anyio

PART = Caller(part=REGISTRY)
HUGE = 10**4300


def short(given: Any) -> str:
    return hex(given)[:12] if isinstance(given, int) else repr(given)[:20]


async def append(registries: Registries, *messages: Message) -> None:
    bodies = bodies_of([each.body() for each in messages])
    await registries.services.messaging.publish(TOPIC, bodies, caller=PART)


def schema_message(sequence: int, version: Any, value: bytes) -> Message:
    key = (
        f'{{"keytype":"SCHEMA","node":"x","sequence":{sequence},"subject":"s","version":{version}}}'
    )
    return Message(value, key.encode())


async def ids_of(called: Called, *subjects: str) -> list[int]:
    return [await called.id_of(each, fixed(size)) for size, each in enumerate(subjects, 50)]


@pytest.mark.parametrize(
    ("imported", "following"),
    [
        (7, 8),
        (IMPORTED_ID_MAX, IMPORTED_ID_MAX + 1),
        (IMPORTED_ID_MAX + 1, 2),
        (NUMBER_MAX, 2),
    ],
)
async def test_ids_continue_behind_imported_ones_up_to_a_bound(
    registries: Registries, imported: int, following: int
) -> None:
    called = registries.make()
    await called.id_of("theirs", fixed(1))
    await called.set_mode("mine", "IMPORT")
    assert await called.id_of("mine", fixed(2), id=imported) == imported
    again = await called.register("mine", fixed(2), id=imported)
    assert isinstance(again, Registered)
    assert await ids_of(called, "a", "b") == [following, following + 1]
    assert await ids_of(registries.make(), "c", "d") == [following, following + 1]
    assert await called.id_of("e", fixed(60)) == following + 2


async def test_an_id_that_was_imported_far_away_is_not_given_again(registries: Registries) -> None:
    called = registries.make()
    await called.set_mode("mine", "IMPORT")
    await called.id_of("mine", fixed(1), id=IMPORTED_ID_MAX + 2)
    await called.id_of("mine", fixed(2), id=IMPORTED_ID_MAX)
    ids = await ids_of(called, "a", "b", "c")
    assert ids == [IMPORTED_ID_MAX + n for n in (1, 3, 4)]


@pytest.mark.parametrize(
    "number", [0, -1, -2, NUMBER_MAX + 1, 2**32, 2**64, HUGE, -HUGE], ids=short
)
async def test_what_is_out_of_bounds_is_refused_and_changes_nothing(
    registries: Registries, number: int
) -> None:
    called = registries.make()
    await called.set_mode("mine", "IMPORT")
    before = len(await registries.log())
    assert await called.register("mine", fixed(1), id=number) == 42201
    if number not in (0, -1):  # 0 and -1 ask for the next one
        assert await called.register("mine", fixed(1), id=5, version=number) == 42202
    assert len(await registries.log()) == before
    assert await called.id_of("theirs", fixed(2)) == 1
    assert await registries.make().id_of("others", fixed(3)) == 2


async def test_when_all_ids_or_versions_are_given_that_is_reported(registries: Registries) -> None:
    called = registries.make()
    counters = b'{"next_ids":{".":%d,".ctx":3},"node":"x","sequence":1}' % NUMBER_MAX
    await called.subjects()
    await called.set_mode("mine", "IMPORT")
    await append(registries, Message(counters.replace(b":1}", b":9}"), b'{"keytype":"COUNTERS"}'))
    assert await called.id_of("a", fixed(1)) == NUMBER_MAX
    for _ in range(2):
        assert await called.register("a2", fixed(2)) == TOO_LARGE
        assert await registries.make().register("a2", fixed(2)) == TOO_LARGE
    assert await called.id_of("b", fixed(1)) == NUMBER_MAX
    assert await called.id_of(":.ctx:a", fixed(1)) == 3
    await called.id_of("mine", fixed(1), id=NUMBER_MAX, version=NUMBER_MAX)
    assert await called.register("mine", fixed(3), id=12) == 42201


@pytest.mark.parametrize(
    "value",
    [
        b'{"id":0,"schema":"\\"int\\""}',
        b'{"id":-1,"schema":"\\"int\\""}',
        b'{"id":2147483648,"schema":"\\"int\\""}',
        b'{"id":1%s,"schema":"\\"int\\""}' % (b"0" * 4300),
        b'{"id":1%s,"schema":"\\"int\\""}' % (b"0" * 4299),
        b'{"id":2,"schema":"\\"int\\"","references":[{"name":"n","subject":"s","version":0}]}',
        b'{"id":2,"schema":7}',
        b"{",
    ],
    ids=short,
)
async def test_a_version_that_cannot_be_read_is_reported_and_its_number_stays_taken(
    registries: Registries, caplog: pytest.LogCaptureFixture, value: bytes
) -> None:
    writer = registries.make()
    await writer.id_of("s", fixed(1))
    await writer.set_level("s", "NONE")
    await append(registries, schema_message(3, 2, value))
    with caplog.at_level(logging.ERROR):
        told = await writer.register("s", fixed(3))
    assert isinstance(told, Registered)
    assert (told.id, told.version) == (2, 3)
    assert "version 2 of the subject 's'" in caplog.text
    reader = registries.make()
    assert await reader.versions("s") == [1, 3]
    assert await reader.set_mode("s", "IMPORT", force=True) == "IMPORT"
    assert await reader.register("s", fixed(4), id=9, version=2) == 42205


@pytest.mark.parametrize("sequence", [-1, 2**63, HUGE - 1], ids=short)
@pytest.mark.parametrize("version", [0, -1, NUMBER_MAX + 1, HUGE - 1], ids=short)
async def test_a_record_that_is_out_of_bounds_is_passed_over(
    registries: Registries, sequence: int, version: int
) -> None:
    good = b'{"id":1,"schema":"\\"int\\""}'
    await registries.make().id_of("s", fixed(1))
    await append(registries, schema_message(2, version, good), schema_message(sequence, 2, good))
    assert await registries.make().id_of("t", fixed(2)) == 2
    assert await registries.make().versions("s") == [1]


@pytest.mark.parametrize("bad", [0, -1, NUMBER_MAX + 2, 2**64, HUGE - 1], ids=short)
async def test_counters_that_are_out_of_bounds_count_as_absent(
    registries: Registries, bad: int
) -> None:
    await registries.make().id_of("s", fixed(1))
    counters = f'{{"next_ids":{{".":{bad},".ctx":5}},"node":"x","sequence":2}}'
    await append(registries, Message(counters.encode(), b'{"keytype":"COUNTERS"}'))
    called = registries.make()
    assert await called.id_of("t", fixed(2)) == 2
    assert await called.id_of(":.ctx:t", fixed(2)) == 1
    assert await called.delete("t", permanent=False) == [1]
    assert await called.delete("t", permanent=True) == [1]
    assert await registries.make().id_of("u", fixed(3)) == 3


@pytest.mark.parametrize(
    "token", ["0" * 5000 + "1", "9" * 5000, "1" + "0" * 4300, "-" + "1" * 5000], ids=short
)
def test_a_long_version_is_a_number_or_refused(token: str) -> None:
    if token.endswith("01"):
        assert parse_version(token) == 1
        return
    with pytest.raises(RegistryError, match="not a valid version id"):
        parse_version(token)
    assert parse_version("latest") == LATEST


@given(st.integers(1, NUMBER_MAX + 1), st.integers(NUMBER_MAX - 30, NUMBER_MAX))
def test_ids_of_batches_end_too(next_id: int, start: int) -> None:
    state = State()
    state.take(Entry(Origin(1, "x"), CountersWritten({".": next_id}), 0))
    known = Knowledge(state, batches={".": range(start, start + 20)})
    if max(next_id, start) > NUMBER_MAX:
        with pytest.raises(RegistryError):
            known.next_id(".")
    elif next_id < start + 20:
        assert known.next_id(".") == max(next_id, start)
