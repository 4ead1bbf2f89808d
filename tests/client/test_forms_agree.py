"""One rule for a message in every form of publishing: all forms accept and refuse the same."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import httpx
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import tms
from tests.arrow.bodies import encode_batches
from tests.servers.server_process import ServerProcess
from tms.cli.main import app
from tms.core.errors import InvalidRequest
from tms.core.values.avro_lengths import avro_length
from tms.spark.rows import messages_of
from tms.wire.avro import NULL

TAKEN, USAGE = "taken", "usage"


class Given(NamedTuple):
    """A message as its sender means it. Headers are pairs, so a name may be repeated."""

    payload: str | None
    key: str | None = None
    headers: Sequence[tuple[str, str]] = ()


PLAIN = Given("fine")
TWICE = (("a", "1"), ("b", ""), ("a", "1"))
CASES: dict[str, tuple[Given, str]] = {
    "a payload": (Given("p"), TAKEN),
    "an empty payload": (Given(""), TAKEN),
    "a key": (Given("p", "k"), TAKEN),
    "an empty key": (Given("p", ""), TAKEN),
    "headers": (Given("p", None, (("a", "1"), ("", ""))), TAKEN),
    "a tombstone": (Given(None, "k"), TAKEN),
    "a tombstone of the empty key": (Given(None, ""), TAKEN),
    "a tombstone with a header": (Given(None, "k", (("a", "1"),)), TAKEN),
    "neither payload nor key": (Given(None), "payload_required"),
    "neither, but a header": (Given(None, None, (("a", "1"),)), "payload_required"),
    "neither, and a long header": (Given(None, None, (("a", "1" * 500),)), "payload_required"),
    "a header twice": (Given("p", None, TWICE), "invalid_body"),
    "a header twice, with a key": (Given("p", "k", TWICE), "invalid_body"),
}


def message_of(given: Given) -> tms.Message:
    return tms.Message(
        (given.payload or "").encode(),
        None if given.key is None else given.key.encode(),
        {name: value.encode() for name, value in given.headers},
        is_tombstone=given.payload is None,
    )


def avro(given: Given) -> bytes:
    def sized(text: str) -> bytes:
        return avro_length(len(text.encode())) + text.encode()

    def union(text: str | None) -> bytes:
        return b"\0" if text is None else b"\2" + sized(text)

    pairs = b"".join(sized(name) + sized(value) for name, value in given.headers)
    block = avro_length(len(given.headers)) + pairs if given.headers else b""
    return union(given.key) + block + b"\0" + union(given.payload)


def avro_array(*given: Given) -> bytes:
    return avro_length(len(given)) + b"".join(map(avro, given)) + b"\0"


def json_message(given: Given) -> str:
    members = ", ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in given.headers)
    told = {"payload": given.payload} | ({} if given.key is None else {"key": given.key})
    return f'{json.dumps(told)[:-1]}, "headers": {{{members}}}}}'


def rows_of(*given: Given) -> pa.RecordBatch:
    columns = [
        pa.array([None if each.payload is None else each.payload.encode() for each in given]),
        pa.array([None if each.key is None else each.key.encode() for each in given], pa.binary()),
        pa.array(
            [[(name, value.encode()) for name, value in each.headers] for each in given],
            pa.map_(pa.string(), pa.binary()),
        ),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["payload", "key", "headers"])


class Place(NamedTuple):
    """Where to publish, and by which client."""

    client: tms.Client
    url: str

    def posted(self, path: str, content_type: str, body: bytes | str) -> str:
        answer = httpx.post(
            f"{self.url}/v1/namespaces/{self.client.namespace}/{path}",
            content=body,
            headers={"Content-Type": content_type},
        )
        if answer.status_code == 200:
            return TAKEN
        assert answer.status_code == 400
        code: str = answer.json()["error"]["code"]
        return code

    def in_json(self, given: Given) -> str:
        body = f'{{"messages": ["fine", {json_message(given)}]}}'
        return self.posted("topics/t/publish", "application/json", body)

    def in_avro(self, given: Given) -> str:
        body = NULL + avro_array(PLAIN, given)
        return self.posted("topics/t/publish", "avro/binary;version=2", body)

    def in_arrow(self, given: Given) -> str:
        body = encode_batches([rows_of(PLAIN, given)])
        return self.posted("topics/t/publish", "application/vnd.apache.arrow.stream", body)

    def to_several_in_json(self, given: Given) -> str:
        body = f'{{"topics": {{"t": ["fine", {json_message(given)}]}}}}'
        return self.posted("publish", "application/json", body)

    def to_several_in_avro(self, given: Given) -> str:
        topic = avro_length(1) + b"\2t" + avro_array(PLAIN, given) + b"\0"
        return self.posted("publish", "avro/binary;version=2", topic + NULL + NULL)

    def in_python(self, given: Given) -> str:
        try:
            self.client.topic("t").publish([b"fine", message_of(given)])
        except InvalidRequest as error:
            return error.problem.code
        return TAKEN

    def stored(self, given: Given) -> str:
        try:
            with self.client.transaction() as tx:
                self.client.topic("t").publish([b"fine", message_of(given)], tx, buffer=True)
        except InvalidRequest as error:
            return error.problem.code
        return TAKEN

    def by_command(self, given: Given) -> str:
        options = [f"--header={name}={value}" for name, value in given.headers]
        options += [] if given.key is None else [f"--key={given.key}"]
        words = ["--tombstone"] if given.payload is None else ["--", given.payload]
        command = ["--url", self.url, "--namespace", self.client.namespace, "publish", "t"]
        self.client.topic("t").publish(b"fine")
        result = CliRunner().invoke(app, [*command, *options, *words])
        return {0: TAKEN, 2: USAGE}[result.exit_code]

    def by_spark(self, given: Given) -> str:
        try:
            rows = messages_of(rows_of(PLAIN, given), "payload")
        except InvalidRequest as error:
            return error.problem.code
        body = encode_batches([rows])
        return self.posted("topics/t/publish", "application/vnd.apache.arrow.stream", body)


Form = Callable[[Place, Given], str]
FORMS: dict[str, tuple[Form, dict[str, str]]] = {
    "JSON": (Place.in_json, {}),
    "Avro": (Place.in_avro, {}),
    "Arrow": (Place.in_arrow, {}),
    "JSON, to several topics": (Place.to_several_in_json, {}),
    "Avro, to several topics": (Place.to_several_in_avro, {}),
    "Python": (Place.in_python, {}),
    "Python, stored": (Place.stored, {}),
    "the command": (Place.by_command, {"payload_required": USAGE, "invalid_body": USAGE}),
    "Spark": (Place.by_spark, {"payload_required": "invalid_row"}),
}
"""Each form, with the codes that it reports in place of others."""
WITH_MAPPINGS = ("Python", "Python, stored")
"""Forms whose headers cannot repeat a name."""


@pytest.fixture
def place(where: str, server: ServerProcess, namespace: str) -> Iterator[Place]:
    with tms.connect("memory:" if where == "this process" else server.url, namespace) as client:
        client.topic("t").create()
        yield Place(client, server.url)


@pytest.mark.parametrize(
    ("where", "form"),
    [*(("a server", form) for form in FORMS), *(("this process", form) for form in WITH_MAPPINGS)],
)
def test_each_form_takes_and_refuses_the_same(place: Place, form: str) -> None:
    publish, words = FORMS[form]
    topic = place.client.topic("t")
    for name, (given, outcome) in CASES.items():
        if form in WITH_MAPPINGS and len(dict(given.headers)) < len(given.headers):
            continue
        before = list(topic.poll())
        assert publish(place, given) == words.get(outcome, outcome), name
        after = [each._replace(id=b"") for each in topic.poll()][len(before) :]
        refused = [tms.Message(b"fine")] if form == "the command" else []
        assert after == (
            [tms.Message(b"fine"), message_of(given)] if outcome == TAKEN else refused
        ), name


LONG = '"' + "x" * 2_000 + '"'
TWICE_IN_JSON = [
    ("topics/t/publish", '{"messages": ["a"], "messages": ["b"]}'),
    ("topics/t/publish", '{"messages": ["a"], "\\u006dessages": ["a"]}'),
    ("topics/t/publish", f'{{"messages": [{LONG}], "messages": ["b"]}}'),
    ("topics/t/publish", f'{{"messages": ["a"], "messages": [{LONG}]}}'),
    ("topics/t/publish", f'{{"messages": [{LONG}], "messages": [{LONG}]}}'),
    ("topics/t/publish", f'{{"messages": [], "messages": [{LONG}]}}'),
    (
        "topics/t/publish",
        f'{{"transactionWritePointer": null, "messages": [{LONG}], "transactionWritePointer": 5}}',
    ),
    ("topics/t/publish", '{"messages": [], "transactionWritePointer": {"long": 5, "long": 5}}'),
    ("topics/t/publish", '{"messages": ["a", {"payload": "p", "payload": "p"}]}'),
    ("topics/t/publish", f'{{"messages": [{LONG}, {{"payload": "p", "payload": "q"}}]}}'),
    ("topics/t/publish", '{"messages": [{"payload": "p", "headers": {"é": "", "\\u00e9": ""}}]}'),
    ("topics/t/publish", '{"messages": [{"payload": {"base64": "", "base64": ""}}]}'),
    ("topics/t/publish", '{"messages": [{"value": {"a": {"b": 1, "b": 2}}}]}'),
    ("topics/t/store", '{"transactionWritePointer": 5, "messages": ["a"], "messages": ["a"]}'),
    ("topics/t/poll", '{"limit": 1, "limit": 2}'),
    ("topics/t/trim", '{"before": 1, "before": 2}'),
    ("topics/t/subscriptions/s", '{"after": null, "after": null}'),
    ("publish", '{"topics": {"t": ["a"], "t": ["b"]}}'),
    ("publish", '{"topics": {"t": ["a"]}, "owner": "a", "owner": "b", "sequence": 1}'),
]


@pytest.mark.parametrize("where", ["a server"])
@pytest.mark.parametrize(("path", "body"), TWICE_IN_JSON)
def test_a_name_that_stands_twice_in_json_is_refused(place: Place, path: str, body: str) -> None:
    method = "put" if "subscriptions" in path else "post"
    answer = httpx.request(
        method,
        f"{place.url}/v1/namespaces/{place.client.namespace}/{path}",
        content=body,
        headers={"Content-Type": "application/json"},
    )

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_body")
    assert "twice" in answer.json()["error"]["detail"]["reason"]
    assert list(place.client.topic("t").poll()) == []
