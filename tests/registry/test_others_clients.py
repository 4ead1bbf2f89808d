"""Third-party registry clients work here unchanged: Confluent's for Python, and one for Node."""

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.common.serde import FieldRuleExecutor, RuleContext
from confluent_kafka.schema_registry.confluent import meta_pb2
from confluent_kafka.schema_registry.confluent.type import decimal_pb2
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.schema_registry.rule_registry import RuleRegistry
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.type import date_pb2

import tms
from dev.processes import free_ports
from tests.registry.masters import http, until
from tests.registry.protoc import described
from tests.servers.server_process import ServerProcess
from tests.waiting import WAIT_S_MAX

pytestmark = pytest.mark.slow

NODE = Path(__file__).parent / "node"
INSTALL_S_MAX = 300
ADDRESS = '{"type":"record","name":"Address","fields":[{"name":"city","type":"string"}]}'
EVENT = (
    '{"title":"Event","type":"object","properties":'
    '{"what":{"type":"string"},"count":{"type":"integer"}},"required":["what"]}'
)
USER = (
    '{"type":"record","name":"User","fields":'
    '[{"name":"name","type":"string"},{"name":"home","type":"Address"}]}'
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose registry listens at a port of its own."""
    store = f"leveldb:{tmp_path_factory.mktemp('registry') / 'store'}"
    [port] = free_ports(1)
    with ServerProcess(store, "--registry-listen", f"127.0.0.1:{port}") as running:
        assert running.url
        running.registry_url = f"http://127.0.0.1:{port}"  # type: ignore[attr-defined]
        yield running
        assert running.stop() == 0


@pytest.fixture
def url(server: ServerProcess) -> str:
    return str(server.registry_url)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def masters(server: ServerProcess) -> Iterator[list[str]]:
    """The registries of a master and a follower, which share a topic of their own."""
    ports = free_ports(2)
    flags = (
        *("--registry-log", server.url, "--registry-mode", "master"),
        *("--registry-topic", "default:schemas", "--registry-session-s", "30"),
    )
    with ExitStack() as stack:
        urls = []
        for port in ports:
            running = stack.enter_context(ServerProcess(None, *flags, port=port))
            urls.append(f"{running.url}/v1/registry")
            until(lambda: http.get(f"{urls[-1]}/status").json().get("master") == urls[0])
        yield urls


@pytest.fixture(params=["its port", "its path", "a follower"])
def confluent(
    request: pytest.FixtureRequest, server: ServerProcess, url: str
) -> Iterator[SchemaRegistryClient]:
    """Confluent's client, at the registry's port, below the server's path, or at a follower."""
    at = url if request.param == "its port" else f"{server.url}/v1/registry"
    if request.param == "a follower":
        at = request.getfixturevalue("masters")[1]
    with SchemaRegistryClient({"url": at}) as client:
        yield client


@pytest.fixture
def elsewhere(request: pytest.FixtureRequest, url: str) -> str:
    """Where another client reaches the same registry."""
    if request.node.callspec.params["confluent"] == "a follower":
        return str(request.getfixturevalue("masters")[0])
    return url


def test_confluents_client_registers_evolves_and_deletes(
    confluent: SchemaRegistryClient, request: pytest.FixtureRequest
) -> None:
    subject = f"evolving-{request.node.callspec.id[-4:]}"
    first = Schema('{"type":"record","name":"E","fields":[]}', "AVRO")
    more = '{"type":"record","name":"E","fields":[{"name":"a","type":"int"%s}]}'
    schema_id = confluent.register_schema(subject, first)
    assert confluent.get_schema(schema_id).schema_str == first.schema_str
    assert confluent.lookup_schema(subject, first).version == 1
    assert confluent.test_compatibility(subject, Schema(more % ',"default":1', "AVRO"))
    assert not confluent.test_compatibility(subject, Schema(more % "", "AVRO"))
    with pytest.raises(SchemaRegistryError) as raised:
        confluent.register_schema(subject, Schema(more % "", "AVRO"))
    assert (raised.value.http_status_code, raised.value.error_code) == (409, 409)
    confluent.register_schema(subject, Schema(more % ',"default":1', "AVRO"))
    assert confluent.get_versions(subject) == [1, 2]
    assert confluent.get_latest_version(subject).version == 2
    assert confluent.get_version(subject, 1).schema_id == schema_id
    assert subject in confluent.get_subjects()
    confluent.set_compatibility(subject, "FULL")
    assert confluent.get_compatibility(subject) == "FULL"
    assert confluent.delete_version(subject, 1) == 1
    assert confluent.delete_subject(subject) == [2]
    assert confluent.delete_subject(subject, permanent=True) == [1, 2]
    assert subject not in confluent.get_subjects()


def test_confluents_client_keeps_metadata_and_rules(confluent: SchemaRegistryClient) -> None:
    metadata = Metadata(None, MetadataProperties({"owner": "me"}), [])
    rule = Rule(
        *("short", None, RuleKind.CONDITION, RuleMode.WRITE, "CEL", ["PII"], None),
        *("size(message.a) < 9", None, "ERROR", False),
    )
    text = '{"type":"record","name":"K","fields":[]}'
    schema = Schema(text, "AVRO", [], metadata, RuleSet(None, [rule]))
    subject = "contract"
    registered = confluent.register_schema_full_response(subject, schema)
    assert registered.schema is not None
    found = confluent.get_latest_with_metadata(subject, {"owner": "me"})
    assert found.schema_id == registered.schema_id
    assert found.schema is not None
    assert found.schema.metadata == metadata
    assert found.schema.rule_set is not None
    assert found.schema.rule_set.domain_rules == [rule]
    assert confluent.lookup_schema(subject, schema).version == found.version
    with pytest.raises(SchemaRegistryError) as raised:
        confluent.get_latest_with_metadata(subject, {"owner": "you"})
    assert raised.value.error_code == 40403
    set_there = ServerConfig(compatibility_group="major", default_metadata=metadata)
    confluent.set_config("other", set_there)
    told = confluent.get_config("other")
    assert (told.compatibility_group, told.default_metadata) == ("major", metadata)
    assert "." in confluent.get_contexts()


def test_confluents_serializers_carry_messages_on_a_topic(
    confluent: SchemaRegistryClient, server: ServerProcess, request: pytest.FixtureRequest
) -> None:
    name = f"users-{request.node.callspec.id[-4:]}"
    confluent.register_schema("address", Schema(ADDRESS, "AVRO"))
    reference = SchemaReference("Address", "address", 1)
    context = SerializationContext(name, MessageField.VALUE)
    serialize = AvroSerializer(confluent, Schema(USER, "AVRO", [reference]))
    deserialize = AvroDeserializer(confluent)
    user: dict[str, Any] = {"name": "Ada", "home": {"city": "London"}}

    with tms.connect(server.url) as client:
        topic = client.topic(name)
        topic.create()
        topic.publish(serialize(user, context))
        [message] = topic.poll()

    assert deserialize(message.payload, context) == user
    found = confluent.get_latest_version(f"{name}-value")
    assert int.from_bytes(message.payload[1:5]) == found.schema_id
    assert [each.subject for each in found.schema.references or ()] == ["address"]


def test_confluents_json_serializers_carry_messages_on_a_topic(
    confluent: SchemaRegistryClient, server: ServerProcess, request: pytest.FixtureRequest
) -> None:
    name = f"events-{request.node.callspec.id[-4:]}"
    context = SerializationContext(name, MessageField.VALUE)
    serialize = JSONSerializer(EVENT, confluent)
    deserialize = JSONDeserializer(None, schema_registry_client=confluent)
    event: dict[str, Any] = {"what": "started", "count": 3}

    with tms.connect(server.url) as client:
        topic = client.topic(name)
        topic.create()
        topic.publish(serialize(event, context))
        [message] = topic.poll()

    assert deserialize(message.payload, context) == event
    assert confluent.get_latest_version(f"{name}-value").schema.schema_type == "JSON"


def call_message() -> Any:
    """Return the class of a message with a field of another message, as protoc makes it."""
    file = FileDescriptorProto(name="call.proto", package="phone", syntax="proto3")
    call = file.message_type.add(name="Call")
    call.field.add(name="to", number=1, label=1, type=9)
    call.field.add(name="took", number=2, label=1, type_name="Took")
    took = file.message_type.add(name="Took")
    took.field.add(name="seconds", number=1, label=1, type=5)
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("phone.Call"))


def test_confluents_protobuf_serializers_carry_messages_on_a_topic(
    confluent: SchemaRegistryClient,
    server: ServerProcess,
    elsewhere: str,
    request: pytest.FixtureRequest,
) -> None:
    name = f"calls-{request.node.callspec.id[-4:]}"
    context = SerializationContext(name, MessageField.VALUE)
    call = call_message()
    given = call(to="Ada")
    given.took.seconds = 3

    with tms.connect(server.url) as client, SchemaRegistryClient({"url": elsewhere}) as other:
        topic = client.topic(name)
        topic.create()
        topic.publish(ProtobufSerializer(call, confluent)(given, context))
        [message] = topic.poll()
        deserialize = ProtobufDeserializer(call, schema_registry_client=other)
        assert deserialize(message.payload, context) == given
        found = other.get_latest_version(f"{name}-value").schema

    assert found.schema_type == "PROTOBUF"
    assert "message Call {" in str(found.schema_str)
    assert ".phone.Took took = 2;" in str(found.schema_str)


PERSON = """syntax = "proto3"; package people;
import "confluent/meta.proto"; import "confluent/type/decimal.proto";
import "google/type/date.proto";
message Person {
  string name = 1;
  string card = 2 [(confluent.field_meta) = { tags: ["PII"] }, json_name = "c@rd"];
  google.type.Date born = 3;
  confluent.type.Decimal owes = 4;
}
"""
META = """syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";
message Meta { repeated string tags = 3; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
"""
DECIMAL = """syntax = "proto3"; package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
"""


def person_message() -> Any:
    """Return the class of a message with a tag and with types that clients bundle, from protoc."""
    imported = {"confluent/meta.proto": META, "confluent/type/decimal.proto": DECIMAL}
    pool = DescriptorPool()
    for module in (descriptor_pb2, meta_pb2, decimal_pb2, date_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    file = described(PERSON, imported)
    assert file is not None
    file.name = "person.proto"
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("people.Person"))


class Masking(FieldRuleExecutor):
    """Replaces the fields that have a tag with stars, as a rule in CEL does."""

    def type(self) -> str:
        return "MASK"

    def new_transform(self, ctx: RuleContext) -> Any:
        return lambda _rule, _field, value: "*" * len(value)


@pytest.mark.parametrize("is_text", [True, False], ids=["its text", "its descriptor"])
def test_a_rule_by_a_tag_masks_fields_of_protobuf_messages(url: str, *, is_text: bool) -> None:
    name = f"people-{is_text}"
    context, subject = SerializationContext(name, MessageField.VALUE), f"{name}-value"
    person = person_message()
    given = person(name="Ada", card="1234", born={"year": 1815}, owes={"scale": 2})
    rule = Rule(
        *("mask", None, RuleKind.TRANSFORM, RuleMode.WRITE, "MASK", ["PII"], None),
        *(None, None, "ERROR", False),
    )
    rules = RuleSet(None, [rule])
    sent = base64.b64encode(person.DESCRIPTOR.file.serialized_pb).decode()
    registry: Any = RuleRegistry()  # type: ignore[no-untyped-call]
    latest = {"auto.register.schemas": False, "use.latest.version": True}
    registry.register_executor(Masking())
    with SchemaRegistryClient({"url": url}) as client:
        plain = ProtobufSerializer(person, client)(given, context)
        schema = Schema(PERSON if is_text else sent, "PROTOBUF", [], None, rules)
        client.register_schema(subject, schema)
    with SchemaRegistryClient({"url": url}) as client:
        serialize = ProtobufSerializer(person, client, latest, rule_registry=registry)
        masked = serialize(given, context)
        deserialize = ProtobufDeserializer(person, schema_registry_client=client)
        assert deserialize(plain, context).card == "1234"
        read = deserialize(masked, context)
        assert (read.name, read.card, read.born.year) == ("Ada", "****", 1815)


def test_a_client_on_node_registers_encodes_and_decodes(url: str, tmp_path: Path) -> None:
    missing = [tool for tool in ("node", "npm") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"the client needs {', '.join(missing)}: apt-get install nodejs npm")
    for file in NODE.iterdir():
        shutil.copy(file, tmp_path)
    quiet = ("--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error")
    run(tmp_path, INSTALL_S_MAX, "npm", "install", *quiet)

    told = json.loads(run(tmp_path, WAIT_S_MAX, "node", "client.js", url))

    assert told["second"] > told["first"]


def run(folder: Path, seconds: float, *command: str) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout
