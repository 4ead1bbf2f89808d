"""The worked examples of the seed's design document, in the form of our log.

Its shorthand for a key is sequence-node-subject-version. Where it prints a loser's record, our
append is refused: a loser writes nothing. Its misprints are mended: the second version is deleted
by `4-A-foo-2`, the second deleter is B, and two lines that say `foo` mean `bar`.
"""

import asyncio
import json

import pytest

from tests.registry.registries import Called, Registries, record
from tms.core.values.message import Message
from tms.registry.registration import Registered

pytestmark = pytest.mark.anyio


def shown(message: Message) -> str:
    """Return a message in the seed's shorthand."""
    assert message.key is not None
    key = json.loads(message.key)
    if key["keytype"] == "COUNTERS":
        return "counters"
    assert message.key == json.dumps(key, sort_keys=True, separators=(",", ":")).encode()
    short = f"{key['sequence']}-{key['node']}-{key['subject']}-{key['version']}"
    if message.is_tombstone:
        return f"{short} NULL"
    value = json.loads(message.payload)
    return f"{short} {{deleted=true}}" if value.get("deleted") else f"{short} {{schema}}"


async def transcript(registries: Registries) -> list[str]:
    return [shown(message) for message in await registries.log()]


async def test_uncontended_create_and_delete(registries: Registries) -> None:
    a = registries.make("A")
    assert await a.id_of("foo", record("x")) == 1
    assert await a.id_of("foo", record("x", "y")) == 2
    assert await a.delete("foo", permanent=False) == [1, 2]
    assert await a.delete("foo", permanent=True) == [1, 2]

    assert await transcript(registries) == [
        "1-A-foo-1 {schema}",
        "2-A-foo-2 {schema}",
        "3-A-foo-1 {deleted=true}",
        "4-A-foo-2 {deleted=true}",
        "1-A-foo-1 NULL",
        "2-A-foo-2 NULL",
        "3-A-foo-1 NULL",
        "4-A-foo-2 NULL",
        "counters",
    ]


async def both_ready(registries: Registries) -> tuple[Called, Called]:
    """Return two registries that have read the log to its end; neither knows of the other."""
    a, b = registries.make("A"), registries.make("B")
    await asyncio.gather(a.subjects(), b.subjects())
    return a, b


async def test_contended_writes_of_the_same_value(registries: Registries) -> None:
    a, b = await both_ready(registries)
    assert await a.id_of("foo", record("x")) == 1
    told = await b.register("foo", record("x"))
    assert isinstance(told, Registered)
    assert (told.id, told.version) == (1, 1)
    assert b.registry.log.refused == 1

    assert await transcript(registries) == ["1-A-foo-1 {schema}"]


async def test_contended_writes_of_different_subjects(registries: Registries) -> None:
    a, b = await both_ready(registries)
    assert await a.id_of("foo", record("x")) == 1
    assert await b.id_of("bar", record("y")) == 2
    assert b.registry.log.refused == 1

    assert await transcript(registries) == ["1-A-foo-1 {schema}", "2-B-bar-1 {schema}"]


async def test_contended_permanent_deletions_both_succeed(registries: Registries) -> None:
    a = registries.make("A")
    await a.register("foo", record("x"))
    assert await a.delete("foo", permanent=False) == [1]
    b = registries.make("B")
    await b.subjects()

    told = await asyncio.gather(a.delete("foo", permanent=True), b.delete("foo", permanent=True))
    assert list(told) == [[1], [1]]
    assert a.registry.log.refused + b.registry.log.refused == 1
    assert await b.delete("foo", permanent=True) == 40401

    assert await transcript(registries) == [
        "1-A-foo-1 {schema}",
        "2-A-foo-1 {deleted=true}",
        "1-A-foo-1 NULL",
        "2-A-foo-1 NULL",
        "counters",
    ]
