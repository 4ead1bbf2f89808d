"""Deleted versions stay deleted, their ids are never reused, and versions in use are kept.

A deletion of more versions than one publish can carry is done in parts. After a crash in between, a
repeated request deletes the rest.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.registry.lossy import Died, LossyMessaging
from tests.registry.registries import Called, Registries, fixed, opened, record
from tms.core.limits import Limits
from tms.core.services.schemas import SchemaReference
from tms.registry import lookup
from tms.registry.registration import Registered
from tms.registry.state.refusal import REFERENCED

pytestmark = pytest.mark.anyio

MESSAGES_MAX = 20
VERSIONS = 15
DAY_MS = 24 * 3600 * 1000
USER = '{"type":"record","name":"U","fields":[{"name":"f","type":"F"}]}'


@pytest.fixture
async def bounded() -> AsyncIterator[Registries]:
    """Registries on a log that accepts few messages per publish."""
    async with opened(limits=Limits(request_messages_max=MESSAGES_MAX)) as made:
        yield made


async def with_versions(registries: Registries, subject: str, count: int = VERSIONS) -> Called:
    """Return a registry with many versions of a subject."""
    called = registries.make()
    await called.set_level(subject, "NONE")
    for number in range(1, count + 1):
        await called.id_of(subject, fixed(number))
    return called


async def forgotten(registries: Registries) -> Called:
    """Return a registry that reads the log again, long after the tombstones expired."""
    registries.clock.advance(int(1.1 * DAY_MS))
    cleanup = registries.services.cleanup
    assert cleanup is not None
    assert await cleanup.run_pass(10.0)
    return registries.make()


async def delete_version(called: Called) -> None:
    await called.delete("t", "1", permanent=True)


async def delete_subject(called: Called) -> None:
    await called.delete("t", permanent=True)


async def set_import(called: Called) -> None:
    await called.set_mode("t", "READWRITE")
    await called.set_mode("t", "IMPORT")


async def import_over_it(called: Called) -> None:
    await called.register("t", fixed(2), id=99, version=1)


@pytest.mark.parametrize("take", [delete_version, delete_subject, set_import, import_over_it])
async def test_an_id_is_not_given_again_whatever_takes_its_schema_away(
    registries: Registries, take: Callable[[Called], Awaitable[None]]
) -> None:
    called = registries.make()
    await called.set_mode("t", "IMPORT")
    assert await called.id_of("t", fixed(1), id=100) == 100
    assert await called.delete("t", permanent=False) == [1]
    await take(called)
    await called.set_mode("t", "READWRITE")
    assert await called.text_of(100) == 40403
    anew = await forgotten(registries)
    assert await anew.id_of("other", fixed(3)) == 101


async def test_a_deleted_version_that_another_refers_to_stays_when_its_schema_comes_again(
    registries: Registries,
) -> None:
    called = registries.make()
    await called.id_of("f", fixed(1))
    await called.register("u", USER, [SchemaReference("F", "f", 1)])
    await called.delete("u", permanent=False)
    await called.delete("f", permanent=False)
    again = await called.register("f", fixed(1))
    assert isinstance(again, Registered)
    assert (again.id, again.version) == (1, 2)
    for each in (called, registries.make()):
        assert await each.versions("f", deleted=True) == [1, 2]
        resolved = await each.registry.answer(
            lambda known: lookup.text_in(
                known, lookup.version_of_id(known.state, 2, "").schema, "resolved"
            )
        )
        assert '"size":1' in resolved
    await called.delete("u", permanent=True)
    await called.delete("f", permanent=False)
    await called.id_of("f", fixed(1))
    assert await called.versions("f", deleted=True) == [3]


async def test_a_subject_is_deleted_whose_versions_refer_to_each_other(
    bounded: Registries,
) -> None:
    """Versions that refer to others go first, so a partial deletion breaks no reference."""
    called = await with_versions(bounded, "s", 2 * MESSAGES_MAX)
    last = 2 * MESSAGES_MAX + 1
    await called.register("s", USER, [SchemaReference("F", "s", 1)])
    dying: Any = Dying(bounded.services.messaging)
    other = bounded.make(messaging=dying)
    await other.subjects()
    dying.left = 1
    with pytest.raises(Died):
        await other.delete("s", permanent=False)
    left = await called.versions("s")
    assert 1 in left
    assert last not in left
    assert await called.delete("s", permanent=False) == left
    assert await called.delete("s", permanent=True) == list(range(1, last + 1))
    assert await bounded.make().subjects(deleted=True) == []


async def test_a_subject_stays_that_another_refers_to(registries: Registries) -> None:
    called = registries.make()
    await called.set_level("s", "NONE")
    await called.id_of("s", fixed(1))
    await called.register("s", USER, [SchemaReference("F", "s", 1)])
    await called.register("t", USER, [SchemaReference("F", "s", 1)])
    assert await called.delete("s", permanent=False) == REFERENCED
    assert await called.delete("s", "1", permanent=False) == REFERENCED
    await called.delete("t", permanent=False)
    assert await called.delete("s", "1", permanent=False) == REFERENCED
    assert await called.delete("s", permanent=False) == [1, 2]


async def test_another_schema_is_not_imported_as_a_version_that_another_refers_to(
    registries: Registries,
) -> None:
    called = registries.make()
    await called.id_of("f", fixed(1))
    await called.register("u", USER, [SchemaReference("F", "f", 1)])
    await called.delete("u", permanent=False)
    await called.delete("f", permanent=False)
    await called.set_mode("f", "IMPORT", force=True)
    # Entering the mode purged the deleted version, so it is registered and deleted again first.
    await called.id_of("f", fixed(1), id=1, version=1)
    await called.delete("f", permanent=False)
    before = len(await registries.log())
    assert await called.register("f", fixed(2), id=9, version=1) == REFERENCED
    assert len(await registries.log()) == before
    assert await called.id_of("f", fixed(1), id=1, version=1) == 1


async def test_a_deletion_of_many_versions_goes_in_parts(bounded: Registries) -> None:
    called = await with_versions(bounded, "s", 2 * MESSAGES_MAX)
    numbers = list(range(1, 2 * MESSAGES_MAX + 1))
    assert await called.delete("s", permanent=False) == numbers
    assert await called.delete("s", permanent=False) == 40404
    assert await bounded.make().versions("s", deleted=True) == numbers
    assert await called.delete("s", permanent=True) == numbers
    assert await called.delete("s", permanent=True) == 40401
    anew = await forgotten(bounded)
    assert await anew.subjects(deleted=True) == []
    assert "s" not in anew.registry.state.configs
    assert await anew.id_of("other", fixed(1)) == 2 * MESSAGES_MAX + 1


async def test_import_takes_many_versions_away_in_parts(bounded: Registries) -> None:
    called = await with_versions(bounded, "s")
    await called.delete("s", permanent=False)
    assert await called.set_mode("", "IMPORT") == "IMPORT"
    anew = await forgotten(bounded)
    assert await anew.subjects(deleted=True) == []
    assert anew.registry.state.level("s") == "NONE"
    assert await anew.id_of("other", record("a"), id=3) == 3


class Dying(LossyMessaging):
    """Makes the process die after a number of publishes that were written."""

    left = 0

    async def publish(self, *args: Any, **more: Any) -> Any:
        published = await super().publish(*args, **more)
        self.left -= 1
        if self.left == 0:
            raise Died
        return published


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("kind", ["soft", "permanent", "import"])
async def test_whoever_asks_again_after_a_crash_has_the_rest_done(
    bounded: Registries, kind: str, parts: int
) -> None:
    count = 3 * MESSAGES_MAX
    first = await with_versions(bounded, "s", count)
    if kind != "soft":
        await first.delete("s", permanent=False)
    dying: Any = Dying(bounded.services.messaging)
    called = bounded.make(messaging=dying)

    async def ask(called: Called) -> Any:
        if kind == "import":
            return await called.set_mode("s", "IMPORT")
        return await called.delete("s", permanent=kind == "permanent")

    await called.subjects()
    dying.left = parts
    with pytest.raises(Died):
        await ask(called)
    anew = bounded.make()
    left = await anew.versions("s", deleted=kind != "soft")
    assert 0 < len(left) < count
    assert anew.registry.state.mode("s") == "READWRITE"
    assert await ask(anew) == ("IMPORT" if kind == "import" else left)
    gone = await forgotten(bounded)
    assert await gone.versions("s") == 40401
    assert await gone.subjects(deleted=True) == (["s"] if kind == "soft" else [])
    keys = [message.key or b"" for message in await bounded.log()]
    if kind != "soft":
        assert not any(b'"SCHEMA"' in key for key in keys), "nothing is left in the log"


async def test_150_versions_go_where_a_publish_has_200_messages() -> None:
    """A permanent deletion needs two messages per version, and the counters; it dies halfway."""
    async with opened(limits=Limits(request_messages_max=200)) as registries:
        first = await with_versions(registries, "s", 150)
        numbers = list(range(1, 151))
        assert await first.delete("s", permanent=False) == numbers
        dying: Any = Dying(registries.services.messaging)
        called = registries.make(messaging=dying)
        await called.subjects()
        dying.left = 1
        with pytest.raises(Died):
            await called.delete("s", permanent=True)
        anew = registries.make()
        left = await anew.versions("s", deleted=True)
        assert 0 < len(left) < 150
        assert await anew.set_mode("s", "IMPORT") == "IMPORT"
        assert await (await forgotten(registries)).subjects(deleted=True) == []
        assert await anew.id_of("t", fixed(999)) == 151


class Interrupting(LossyMessaging):
    """Does something else after the first part."""

    def __init__(self, messaging: Any, act: Callable[[], Awaitable[Any]]) -> None:
        super().__init__(messaging)
        self.act: Callable[[], Awaitable[Any]] | None = act

    async def publish(self, *args: Any, **more: Any) -> Any:
        published = await super().publish(*args, **more)
        act, self.act = self.act, None
        if act is not None:
            await act()
        return published


@pytest.mark.parametrize("permanent", [False, True])
async def test_two_who_delete_many_versions_at_once_both_succeed(
    bounded: Registries, *, permanent: bool
) -> None:
    count = 2 * MESSAGES_MAX
    other = await with_versions(bounded, "s", count)
    if permanent:
        await other.delete("s", permanent=False)
    told: list[Any] = []

    async def delete_too() -> None:
        told.append(await other.delete("s", permanent=permanent))

    interrupting: Any = Interrupting(bounded.services.messaging, delete_too)
    called = bounded.make(messaging=interrupting)
    assert await called.delete("s", permanent=permanent) == list(range(1, count + 1))
    assert 0 < len(told[0]) < count
    assert await bounded.make().versions("s") == 40401


async def test_a_schema_that_the_log_does_not_take_is_too_large() -> None:
    limits = Limits(message_bytes_max=2_000)
    async with opened(limits=limits) as registries:
        called = registries.make()
        long = record(*(f"field_{number}" for number in range(100)))
        assert await called.register("s", long) == 42209
        assert await called.id_of("s", fixed(1)) == 1
