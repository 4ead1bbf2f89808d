"""Clients of values: while subjects come and go, in a child, without the extra."""

import itertools
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import tms
from tests.scale import scaled
from tests.servers.server_process import ROOT, ServerProcess, environment
from tests.waiting import WAIT_S_MAX
from tms.core.services.schemas import SchemaReference

DELETIONS = scaled(20)
AT_ONCE = 5
NUMBERS = '{"type":"record","name":"Numbers","fields":[{"name":"n","type":"long"}]}'
TEXTS = '{"type":"record","name":"Texts","fields":[{"name":"s","type":"string"}]}'
PROGRAM = """
import os, sys
sys.modules.update(dict.fromkeys({without}))
import tms
with tms.connect({url!r}) as client:
    topic = client.topic({topic!r})
{body}
"""
IN_CHILD = """
    topic.create()
    topic.publish({"n": 1}, schema=NUMBERS)
    print([each.value for each in topic.poll(decode=True)])
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        topic.publish({"n": 2}, schema=NUMBERS)
        topic.publish({"s": "x"}, schema=TEXTS)
        print([each.value for each in topic.poll(decode=True)])
        sys.stdout.flush()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    topic.publish({"n": 3}, schema=NUMBERS)
    print([each.value for each in topic.poll(decode=True)])
"""
WITHOUT = """
    topic.create()
    topic.publish(b"raw")
    for each in (
        lambda: topic.publish({"n": 1}, schema=NUMBERS),
        lambda: topic.encode({"n": 1}, NUMBERS),
        lambda: list(topic.poll(decode=True)),
        lambda: topic.decode([tms.Message(b"raw")]),
    ):
        try:
            each()
        except ModuleNotFoundError as error:
            print(error)
    print([each.payload for each in topic.poll()])
"""
WITH_PART = [
    (
        "JSON",
        '{"type": "object"}',
        '{"properties": {"p": {"$ref": "part"}}}',
        "it refers to of_JSON_part version 1, which does not exist",
    ),
    (
        "AVRO",
        '{"type": "record", "name": "part", "fields": [{"name": "a", "type": "int"}]}',
        '{"type": "record", "name": "W", "fields": [{"name": "p", "type": "part"}]}',
        'The type "part" is not defined',
    ),
    (
        "PROTOBUF",
        'syntax = "proto3"; message P { int32 a = 1; }',
        'syntax = "proto3"; import "part"; message W { P p = 1; }',
        "part: File not found.",
    ),
]
"""A type, a schema, another that refers to it, and what is wrong when the first was deleted."""


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("memory:") as server:
        yield server
        assert server.stop() == 0


@pytest.fixture
def topic(server: ServerProcess) -> Iterator[tms.Topic]:
    with tms.connect(server.url) as client:
        topic = client.topic("come_and_go")
        topic.create()
        # The global level, because a subject loses its own level if it is deleted permanently.
        client.registry.set_compatibility("NONE")
        yield topic
        topic.delete()


class Publisher:
    """Publishes values of one schema, as many as it is allowed to."""

    def __init__(self, url: str, name: str, schema: str, value_of: Callable[[int], Any]) -> None:
        self.published: dict[bytes, Any] = {}
        self.may = threading.Semaphore(0)
        self.is_ended = False
        self.failure: BaseException | None = None
        self._given = url, name, schema, value_of
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        self.is_ended = True
        self.may.release()
        self._thread.join()

    def _run(self) -> None:
        url, name, schema, value_of = self._given
        try:
            with tms.connect(url) as client:
                topic = client.topic(name)
                for number in itertools.count():
                    self.may.acquire()
                    if self.is_ended:
                        return
                    with suppress(tms.SchemaRefused):  # the subject was just deleted
                        [message_id] = topic.publish(value_of(number), schema=schema)
                        self.published[message_id] = value_of(number)
        except BaseException as error:
            self.failure = error


def test_no_value_is_decoded_by_another_schema_while_subjects_come_and_go(
    server: ServerProcess, topic: tms.Topic
) -> None:
    publishers = [
        Publisher(server.url, topic.name, NUMBERS, lambda number: {"n": number}),
        Publisher(server.url, topic.name, TEXTS, lambda number: {"s": str(number)}),
    ]
    how = tms.Decoding(damaged="give")
    own: dict[bytes, Any] = {}
    polled: list[tms.Record] = []
    subject = f"{topic.name}-value"
    deletions = 0
    try:
        while deletions < DELETIONS:
            for each in publishers:
                each.may.release(AT_ONCE)
            # A client with empty caches registers, deletes and decodes.
            with tms.connect(server.url) as fresh:
                with suppress(tms.SchemaRefused):  # a publisher has registered in between
                    fresh.registry.delete(subject)
                    fresh.registry.delete(subject, permanent=True)
                    deletions += 1
                schema, value = [(NUMBERS, {"n": -len(own)}), (TEXTS, {"s": "own"})][len(own) % 2]
                [message_id] = fresh.topic(topic.name).publish(value, schema=schema)
                own[message_id] = value
                polled.extend(fresh.topic(topic.name).poll(decode=how))
            polled.extend(topic.poll(decode=how))
    finally:
        for each in publishers:
            each.end()

    assert [each.failure for each in publishers] == [None, None]
    published = own | publishers[0].published | publishers[1].published
    polled.extend(topic.poll(decode=how))
    for record in polled:
        assert record.value == (None if record.error else published[record.id])
    schemas = {each.schema_id for each in polled if each.error is None}
    assert len(schemas) >= DELETIONS
    assert {each.id for each in polled} == set(published)


def test_whoever_is_refused_by_what_is_out_of_date_registers_again(server: ServerProcess) -> None:
    schema = NUMBERS.replace("Numbers", "Checked")  # a name that no other subject has
    with tms.connect(server.url) as client:
        topic = client.topic("checked")
        topic.create(schema_check="full")
        topic.publish({"n": 1}, schema=schema)
        first = client.registry.version("checked-value").id
        client.registry.delete("checked-value")
        client.registry.delete("checked-value", permanent=True)
        topic.publish({"n": 2}, schema=schema)

        assert client.registry.version("checked-value").id != first
        with tms.connect(server.url) as fresh:
            decoded = list(fresh.topic("checked").poll(decode=tms.Decoding(damaged="give")))
        assert [each.value for each in decoded] == [None, {"n": 2}]
        assert str(first) in (decoded[0].error or "")


def run(url: str, topic: str, body: str, without: tuple[str, ...] = ()) -> list[str]:
    """Return the lines that a program prints."""
    body = body.replace("NUMBERS", repr(NUMBERS)).replace("TEXTS", repr(TEXTS))
    program = PROGRAM.format(url=url, topic=topic, body=body, without=without)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_a_forked_child_publishes_and_polls_values(server: ServerProcess) -> None:
    topic = "forked"
    with tms.connect(server.url) as client:
        client.registry.set_compatibility("NONE", f"{topic}-value")
    first, second, third = run(server.url, topic, IN_CHILD)

    assert first == "[{'n': 1}]"
    assert second == "[{'n': 1}, {'n': 2}, {'s': 'x'}]"
    assert third == "[{'n': 1}, {'n': 2}, {'s': 'x'}, {'n': 3}]"


@pytest.mark.parametrize("module", ["cachetools", "google.protobuf"])
def test_a_client_without_the_extra_is_told_what_to_install(
    server: ServerProcess, module: str
) -> None:
    *told, polled = run(server.url, f"without_{module[:5]}", WITHOUT, (module,))

    assert polled == "[b'raw']"
    assert len(told) == 4
    for each in told:
        assert each.startswith("values with schemas need more (")
        assert module in each
        assert "schemas" in each.rpartition(":")[2]


@pytest.mark.parametrize(
    ("kind", "part", "whole", "reason"), WITH_PART, ids=["json", "avro", "protobuf"]
)
def test_values_whose_schema_refers_to_a_deleted_one_are_damaged(
    server: ServerProcess, kind: str, part: str, whole: str, reason: str
) -> None:
    name = f"of_{kind}"
    text = tms.SchemaText(whole, kind, references=(SchemaReference("part", f"{name}_part", 1),))
    with tms.connect(server.url) as client:
        client.registry.register(f"{name}_part", part, kind)
        client.topic(name).create()
        client.topic(name).publish({"p": {"a": 1}}, schema=text)
        client.registry.delete(f"{name}-value")
        client.registry.delete(f"{name}_part")
        client.registry.delete(f"{name}_part", permanent=True)
    with tms.connect(server.url) as client:
        [record] = client.topic(name).poll(decode=tms.Decoding(damaged="give"))
        assert record.error == reason
        with pytest.raises(tms.PayloadUndecodable):
            list(client.topic(name).poll(decode=True))
