"""Bytes equal those of Confluent's serializers, and each side decodes the other's."""

import datetime as dt
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

import tms
from tests.servers.server_process import ServerProcess

pytestmark = pytest.mark.slow

_numbers = count()
STRATEGIES = {
    "topic": topic_subject_name_strategy,
    "record": record_subject_name_strategy,
    "topic_record": topic_record_subject_name_strategy,
}
ORDER = (
    '{"type":"record","name":"Order","namespace":"shop","fields":['
    '{"name":"id","type":"string"},'
    '{"name":"count","type":"int","default":1},'
    '{"name":"note","type":["null","string"],"default":null},'
    '{"name":"kind","type":{"type":"enum","name":"Kind","symbols":["A","B"]}},'
    '{"name":"sums","type":{"type":"map","values":"double"}},'
    '{"name":"lines","type":{"type":"array","items":{"type":"record","name":"Line","fields":['
    '{"name":"article","type":"bytes"},{"name":"many","type":"long"}]}}}]}'
)
ORDERS: list[dict[str, Any]] = [
    {"id": "a", "count": 5, "note": None, "kind": "A", "sums": {}, "lines": []},
    {
        "id": "\u00e9\U0001f600",
        "count": -1,
        "note": "x",
        "kind": "B",
        "sums": {"a": 0.1},
        "lines": [{"article": b"\xff", "many": 1 << 62}],
    },
]
LOGICAL = (
    '{"type":"record","name":"Logical","fields":['
    '{"name":"day","type":{"type":"int","logicalType":"date"}},'
    '{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},'
    '{"name":"exactly","type":{"type":"long","logicalType":"timestamp-micros"}},'
    '{"name":"time","type":{"type":"int","logicalType":"time-millis"}},'
    '{"name":"id","type":{"type":"string","logicalType":"uuid"}},'
    '{"name":"sum","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}}]}'
)
MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=dt.UTC)
LOGICALS: list[dict[str, Any]] = [
    {
        "day": MOMENT.date(),
        "at": MOMENT,
        "exactly": MOMENT.replace(microsecond=1),
        "time": MOMENT.time(),
        "id": uuid.UUID(int=5),
        "sum": Decimal("-1234567.89"),
    }
]
EVENT = (
    '{"title":"Event","type":"object","properties":{"what":{"type":"string"},'
    '"count":{"type":"number"},"where":{"type":["array","null"]}},"required":["what"]}'
)
EVENTS: list[dict[str, Any]] = [
    {"what": "started"},
    {"what": "\u00e9", "count": 1.5, "where": [None, {"a": True}]},
]


@dataclass
class Side:
    """A topic, for our client and for Confluent's serializers."""

    url: str
    client: tms.Client
    registry: SchemaRegistryClient
    topic: tms.Topic

    def context(self, field: MessageField = MessageField.VALUE) -> SerializationContext:
        return SerializationContext(self.topic.name, field)

    def check_value(self, value: Any, theirs: bytes, decode: Any, **schemas: Any) -> None:
        """Check that both encode a value as the same bytes, and decode them."""
        [message] = self.topic.encode([value], **schemas)
        assert message.payload == theirs
        assert decode(message.payload, self.context()) == value
        self.topic.publish(theirs)
        [*_, record] = self.topic.poll(decode=True)
        assert record.value == value


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    store = f"leveldb:{tmp_path_factory.mktemp('registry') / 'store'}"
    with ServerProcess(store) as running:
        assert running.url
        yield running
        assert running.stop() == 0


@pytest.fixture(scope="module")
def registry(server: ServerProcess) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": f"{server.url}/v1/registry"}) as client:
        yield client


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[tms.Client]:
    with tms.connect(server.url) as client:
        yield client


@pytest.fixture
def side(server: ServerProcess, client: tms.Client, registry: SchemaRegistryClient) -> Side:
    topic = client.topic(f"t{next(_numbers)}")
    topic.create()
    return Side(f"{server.url}/v1/registry", client, registry, topic)


@pytest.mark.parametrize(("schema", "values"), [(ORDER, ORDERS), (LOGICAL, LOGICALS)])
def test_avros_bytes_are_the_same(side: Side, schema: str, values: list[Any]) -> None:
    serialize = AvroSerializer(side.registry, schema)
    deserialize = AvroDeserializer(side.registry)
    for value in values:
        theirs = serialize(value, side.context())
        assert theirs is not None
        side.check_value(value, theirs, deserialize, schema=schema)


def test_avros_bytes_are_the_same_for_a_schema_that_refers_to_another(side: Side) -> None:
    name = side.topic.name
    address = '{"type":"record","name":"Address","fields":[{"name":"city","type":"string"}]}'
    user = (
        '{"type":"record","name":"User","fields":[{"name":"home","type":"Address"},'
        '{"name":"others","type":{"type":"array","items":"Address"}}]}'
    )
    side.client.registry.register(f"{name}-address", address)
    serialize = AvroSerializer(
        side.registry, Schema(user, "AVRO", [SchemaReference("Address", f"{name}-address", 1)])
    )
    ours = tms.SchemaText(user, references=(tms.SchemaReference("Address", f"{name}-address", 1),))
    value = {"home": {"city": "London"}, "others": [{"city": "Paris"}]}
    theirs = serialize(value, side.context())
    assert theirs is not None

    side.check_value(value, theirs, AvroDeserializer(side.registry), schema=ours)


def test_confluents_reader_and_ours_read_an_older_value_alike(side: Side) -> None:
    theirs = AvroSerializer(side.registry, ORDER)(ORDERS[1], side.context())
    newer = (
        '{"type":"record","name":"Order","namespace":"shop","fields":['
        '{"name":"count","type":"double"},{"name":"id","type":"string"},'
        '{"name":"more","type":{"type":"map","values":"int"},"default":{}}]}'
    )
    assert theirs is not None
    side.topic.publish(theirs)

    [record] = side.topic.poll(decode=tms.Decoding(schema=newer))

    deserialize = AvroDeserializer(side.registry, newer)
    assert record.value == deserialize(theirs, side.context())
    assert record.value == {"count": -1.0, "id": ORDERS[1]["id"], "more": {}}


@pytest.mark.parametrize("value", EVENTS)
def test_jsons_values_are_the_same(side: Side, value: dict[str, Any]) -> None:
    schema = tms.SchemaText(EVENT, "JSON")
    serialize = JSONSerializer(EVENT, side.registry)
    deserialize = JSONDeserializer(None, schema_registry_client=side.registry)
    theirs = serialize(value, side.context())
    [ours] = side.topic.encode([value], schema=schema)
    assert theirs is not None

    # Confluent's text has a blank after each comma and colon, and escapes non-ASCII characters.
    assert ours.payload[:5] == theirs[:5]
    assert deserialize(ours.payload, side.context()) == value
    side.topic.publish(theirs)
    [record] = side.topic.poll(decode=True)
    assert record.value == value


def test_jsons_references_are_found_by_both(side: Side) -> None:
    name = side.topic.name
    address = '{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}'
    user = '{"title":"User","type":"object","properties":{"home":{"$ref":"address.json"}}}'
    side.client.registry.register(f"{name}-address", address, "JSON")
    theirs_refers = [SchemaReference("address.json", f"{name}-address", 1)]
    ours_refers = (tms.SchemaReference("address.json", f"{name}-address", 1),)
    serialize = JSONSerializer(Schema(user, "JSON", theirs_refers), side.registry)
    value = {"home": {"city": "London"}}
    theirs = serialize(value, side.context())
    assert theirs is not None
    side.topic.publish(theirs)

    assert [each.value for each in side.topic.poll(decode=True)] == [value]
    schema = tms.SchemaText(user, "JSON", ours_refers)
    [ours] = side.topic.encode([value], schema=schema)
    assert ours.payload[:5] == theirs[:5]
    with pytest.raises(tms.PayloadRefused) as refused:
        side.topic.publish({"home": {}}, schema=schema)
    assert refused.value.detail["field"] == "home"


def files() -> tuple[Any, Any]:
    """Return classes as protoc makes them: a message, and one within another of the same file.

    The file imports one of its own and one of Protobuf's.
    """
    number = next(_numbers)
    part = FileDescriptorProto(name=f"part{number}.proto", package=f"p{number}", syntax="proto3")
    part.message_type.add(name="Part").field.add(name="code", number=1, label=1, type=9)
    file = FileDescriptorProto(name=f"call{number}.proto", package=f"c{number}", syntax="proto3")
    file.dependency.extend([part.name, "google/protobuf/timestamp.proto"])
    file.message_type.add(name="Other").field.add(name="n", number=1, label=1, type=3)
    call = file.message_type.add(name="Call")
    call.field.add(name="to", number=1, label=1, type=9)
    call.field.add(name="part", number=2, label=1, type=11, type_name=f".p{number}.Part")
    call.field.add(name="at", number=3, label=1, type=11, type_name=".google.protobuf.Timestamp")
    call.nested_type.add(name="First").field.add(name="n", number=1, label=1, type=3)
    call.nested_type.add(name="Inner").field.add(name="n", number=1, label=3, type=17)
    pool = DescriptorPool()
    pool.AddSerializedFile(Timestamp.DESCRIPTOR.file.serialized_pb)
    for each in (part, file):
        pool.AddSerializedFile(each.SerializeToString())
    found = pool.FindMessageTypeByName(f"c{number}.Call")
    return GetMessageClass(found), GetMessageClass(found.nested_types_by_name["Inner"])


@pytest.mark.parametrize("begins", ["ours", "theirs"])
def test_protobufs_bytes_are_the_same(side: Side, begins: str) -> None:
    call, inner = files()
    given = call(to="Ada")
    given.part.code = "x"
    given.at.FromSeconds(5)
    for value in (given, inner(n=[1, -1])):
        serialize = ProtobufSerializer(type(value), side.registry)
        schema = type(value)
        if begins == "ours":
            side.topic.encode([value], schema=schema)
        theirs = serialize(value, side.context())
        [ours] = side.topic.encode([value], schema=schema)
        assert ours.payload == theirs
        # A separate client: one that registered a file does not ask for its descriptor.
        with SchemaRegistryClient({"url": side.url}) as other:
            deserialize = ProtobufDeserializer(schema, schema_registry_client=other)
            assert deserialize(ours.payload, side.context()) == value
        side.topic.publish(theirs)
        [*_, record] = side.topic.poll(decode=True)
        assert type(value).FromString(record.value.SerializeToString()) == value
        assert record.value.DESCRIPTOR.full_name == value.DESCRIPTOR.full_name


def test_a_key_has_the_same_bytes(side: Side) -> None:
    topic = side.client.topic(f"k{side.topic.name}")
    topic.create(key_subject=f"{topic.name}-key")
    in_key = SerializationContext(topic.name, MessageField.KEY)
    key = AvroSerializer(side.registry, '"long"')(7, in_key)
    value = AvroSerializer(side.registry, ORDER)(
        ORDERS[0], SerializationContext(topic.name, MessageField.VALUE)
    )
    assert key is not None
    assert value is not None

    topic.publish(tms.Record(ORDERS[0], key=7), schema=ORDER, key_schema='"long"')
    topic.publish(tms.Message(value, key=key))

    ours, theirs = topic.poll()
    assert (ours.key, ours.payload) == (theirs.key, theirs.payload)
    assert AvroDeserializer(side.registry)(ours.key, in_key) == 7
    assert [each.key for each in topic.poll(decode=True)] == [7, 7]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
def test_a_strategy_finds_the_same_subject(side: Side, strategy: str, kind: str) -> None:
    topic = side.client.topic(f"s{side.topic.name}")
    topic.create(subject_strategy=strategy)
    options = {"subject.name.strategy": STRATEGIES[strategy]}
    context = SerializationContext(topic.name, MessageField.VALUE)
    name = f"N{side.topic.name}"
    schema: Any
    value: Any = {"what": "x"}
    serialize: Any
    if kind == "AVRO":
        fields = '[{"name":"what","type":"string"}]'
        text = f'{{"type":"record","name":"{name}","namespace":"a","fields":{fields}}}'
        schema, serialize = text, AvroSerializer(side.registry, text, conf=options)
    elif kind == "JSON":
        text = f'{{"title":"{name}","type":"object"}}'
        schema = tms.SchemaText(text, "JSON")
        serialize = JSONSerializer(text, side.registry, conf=options)
    else:
        schema, _ = files()
        value = schema(to="x")
        serialize = ProtobufSerializer(schema, side.registry, options)

    before = set(side.registry.get_subjects())
    theirs = serialize(value, context)
    subjects = set(side.registry.get_subjects())
    [ours] = topic.encode([value], schema=schema)

    assert set(side.registry.get_subjects()) == subjects
    assert len(subjects - before) == (2 if kind == "PROTOBUF" else 1)
    assert theirs is not None
    assert ours.payload[:5] == theirs[:5]
    [found] = topic.encode([value], schema=schema, register=False)
    assert found.payload == ours.payload
