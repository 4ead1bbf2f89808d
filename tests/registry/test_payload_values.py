"""Payloads are decoded in separate processes: hostile ones delay and crash nothing else."""

import asyncio

import pytest

from tests.registry.harm import hang
from tests.registry.registries import Registries
from tests.waiting import WAIT_S_MAX
from tms.core.errors import PayloadRefused, SchemasUnavailable
from tms.core.services.payload_values import ValueToEncode
from tms.core.values.message import Message
from tms.core.values.topic import TopicId
from tms.core.values.topic_schemas import SchemaCheck, TopicSchemas
from tms.registry.checking import checker as checker_module
from tms.registry.checking.checker import ProcessChecker
from tms.registry.log.schema_log import WayToLog
from tms.registry.log.service import Registry
from tms.registry.payload_values import RegistryValues
from tms.serdes.wire_format import start_of

pytestmark = pytest.mark.anyio

LINKED = '{"type":"record","name":"N","fields":[{"name":"next","type":["null","N"]}]}'
TOPIC = TopicSchemas(TopicId("ns", "t"), subject="s", check=SchemaCheck.FULL)
DEEP = 1_000_000


@pytest.fixture
async def values(registries: Registries) -> RegistryValues:
    """Values of the subject `s`, whose id 1 is a list of nodes."""
    called = registries.make()
    assert await called.id_of("s", LINKED) == 1
    return RegistryValues(called.registry, ProcessChecker(WAIT_S_MAX))


async def test_a_payload_that_is_nested_deeply_is_refused(values: RegistryValues) -> None:
    hostile = start_of(1) + b"\x02" * DEEP + b"\x00"
    good = start_of(1) + b"\x02\x00"
    with pytest.raises(PayloadRefused) as caught:
        await values.check(TOPIC, [good, hostile])
    assert caught.value.detail["index"] == 1
    assert "nested" in caught.value.detail["reason"]
    told = await values.decoded(TOPIC, [Message(good), Message(hostile)])
    assert told[0].value == b'{"next":{"N":{"next":null}}}'
    assert "nested" in (told[1].error or "")
    text = b'{"next":{"N":' * 5_000 + b'{"next":null}' + b"}}" * 5_000
    with pytest.raises(PayloadRefused, match="nested"):
        await values.encoded(TOPIC, {0: ValueToEncode(text)})


async def test_who_looks_too_long_is_given_up(
    registries: Registries, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = registries.make()
    await called.id_of("s", LINKED)
    checker = ProcessChecker(0.5)
    values = RegistryValues(called.registry, checker)
    monkeypatch.setattr(checker_module, "_answers_in_worker", hang)
    with pytest.raises(SchemasUnavailable):
        await values.check(TOPIC, [start_of(1) + b"\x00"])
    with pytest.raises(SchemasUnavailable):
        await values.encoded(TOPIC, {0: ValueToEncode(value=b"{}")})
    [told] = await values.decoded(TOPIC, [Message(start_of(1) + b"\x00")])
    assert told.error is not None
    assert checker.killed == 3


async def test_a_schema_that_cannot_be_used_is_named(
    registries: Registries, values: RegistryValues
) -> None:
    other = TopicSchemas(TopicId("ns", "t"), subject="nulls", check=SchemaCheck.FULL)
    schema_id = await registries.make().id_of("nulls", '{"type":"array","items":"null"}')
    with pytest.raises(PayloadRefused, match="take no bytes") as caught:
        await values.check(other, [start_of(schema_id) + b"\x00"])
    assert caught.value.problem.code == "schema_unusable"


async def test_what_another_server_registered_is_found_at_once(
    registries: Registries, values: RegistryValues
) -> None:
    await values.check(TOPIC, [start_of(1) + b"\x00"])
    other = registries.make()
    assert await other.id_of("s2", '"int"') == 2
    there = TopicSchemas(TopicId("ns", "t"), subject="s2", check=SchemaCheck.FULL)
    await values.check(there, [start_of(2) + b"\x02"])


async def test_a_registry_that_is_not_reached_is_distinguished(
    registries: Registries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tms.registry.log.schema_log.REACHED_S_MAX", 0.1)
    called = registries.make()
    registry: Registry = called.registry
    registry.log._way = WayToLog()
    values = RegistryValues(registry, ProcessChecker(WAIT_S_MAX))
    with pytest.raises(SchemasUnavailable):
        await values.check(TOPIC, [start_of(1) + b"\x00"])


async def test_many_at_once_are_each_answered(values: RegistryValues) -> None:
    good, bad = start_of(1) + b"\x00", start_of(1) + b"\x05"

    async def refused(payload: bytes) -> bool:
        try:
            await values.check(TOPIC, [payload])
        except PayloadRefused:
            return True
        return False

    outcomes = await asyncio.gather(*(refused(bad if n % 3 else good) for n in range(60)))
    assert outcomes == [bool(n % 3) for n in range(60)]
