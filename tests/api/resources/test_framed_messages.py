"""Keys and headers over REST: all formats carry them; `avro/binary` carries only payloads."""

import json
from io import BytesIO
from typing import Any

import fastavro
import httpx
import pyarrow as pa
import pytest

from tests.api.rest import AVRO_TYPE, JSON_TYPE, TOPIC, Rest, live, refusal
from tests.arrow.bodies import encode_batches
from tests.wire.poll_decoder import AvroPollDecoder
from tms.core.limits import Limits
from tms.core.values.frame import bodies_of
from tms.core.values.message import Message, published_ms, tombstone
from tms.wire.avro_frames import AVRO_FRAMES
from tms.wire.avro_runs import AvroRunsDecoder
from tms.wire.bodies import PollRequest, PublishRequest
from tms.wire.media_types import ARROW_TYPE, AVRO_FRAMES_TYPE, POLLED_ARROW_TYPE

pytestmark = pytest.mark.anyio

TOPIC_PATH = "/v1/namespaces/{namespace}/topics/{topic}/poll"
MESSAGES = [
    Message(b"alone"),
    Message(b"keyed", b"k"),
    Message(b"\xff", b"\xfe", {"h": b"\xfd", "text": b"t"}),
    tombstone(b"k"),
    Message(b"last"),
]
IN_JSON: list[Any] = [
    "alone",
    {"payload": "keyed", "key": "k"},
    {
        "payload": {"base64": "/w=="},
        "key": {"base64": "/g=="},
        "headers": {"h": {"base64": "/Q=="}, "text": "t"},
    },
    {"payload": None, "key": "k"},
    {"payload": "last"},
]


TYPES = (JSON_TYPE, AVRO_FRAMES_TYPE, ARROW_TYPE)
"""The formats that have keys."""


def bodies() -> dict[str, bytes]:
    """Return the same messages in each of `TYPES`."""
    arrow = pa.RecordBatch.from_arrays(
        [
            pa.array([None if m.is_tombstone else m.payload for m in MESSAGES], pa.binary()),
            pa.array([m.key for m in MESSAGES], pa.binary()),
            pa.array(
                [list(m.headers.items()) for m in MESSAGES], pa.map_(pa.string(), pa.binary())
            ),
        ],
        names=["payload", "key", "headers"],
    )
    framed = bodies_of([message.body() for message in MESSAGES])
    return {
        JSON_TYPE: json.dumps({"messages": IN_JSON}).encode(),
        AVRO_FRAMES_TYPE: AVRO_FRAMES.encode_publish(PublishRequest(None, framed)),
        ARROW_TYPE: encode_batches([arrow]),
    }


async def asked(rest: Rest, verb: str, body: bytes, content_type: str, **headers: str) -> Any:
    answer = await rest.http.post(
        f"{TOPIC}/{verb}", content=body, headers={"content-type": content_type, **headers}
    )
    assert answer.status_code == httpx.codes.OK, answer.text
    return answer


async def polled(rest: Rest) -> list[Message]:
    answer = await asked(rest, "poll", AVRO_FRAMES.encode_poll(PollRequest()), AVRO_FRAMES_TYPE)
    assert answer.headers["content-type"] == AVRO_FRAMES_TYPE
    decoder = AvroRunsDecoder()
    found = list(decoder.feed(answer.content))
    decoder.close()
    return [message._replace(id=b"") for message in found]


@pytest.mark.parametrize("content_type", TYPES)
async def test_each_format_gives_all(content_type: str) -> None:
    async with live() as rest:
        await rest.create()
        await asked(rest, "publish", bodies()[content_type], content_type)

        assert await polled(rest) == MESSAGES


async def test_each_format_is_given_what_it_has_room_for() -> None:
    async with live() as rest:
        await rest.create()
        await asked(rest, "publish", bodies()[JSON_TYPE], JSON_TYPE)
        rows = (await asked(rest, "poll", b"{}", JSON_TYPE)).json()
        avro = await asked(rest, "poll", AVRO_FRAMES.encode_poll(PollRequest()), AVRO_TYPE)
        arrows = [
            await asked(rest, "poll", b"{}", JSON_TYPE, accept=accept)
            for accept in (ARROW_TYPE, POLLED_ARROW_TYPE)
        ]

    for row in rows:
        assert row.pop("timestamp") == published_ms(bytes.fromhex(row.pop("id")))
    assert rows == [{"payload": "alone"}, *IN_JSON[1:]]
    payloads = [message.payload for message in MESSAGES]
    assert [m.payload for m in AvroPollDecoder().feed(avro.content)] == payloads
    assert [answer.headers["content-type"] for answer in arrows] == [POLLED_ARROW_TYPE] * 2
    for answer in arrows:
        columns = pa.ipc.open_stream(answer.content).read_all()
        assert columns.column("payload").to_pylist() == [
            None if message.is_tombstone else message.payload for message in MESSAGES
        ]
        assert columns.column("key").to_pylist() == [message.key for message in MESSAGES]


async def test_a_library_reads_the_answer_by_the_schema_of_the_document() -> None:
    async with live() as rest:
        await rest.create()
        await asked(rest, "publish", bodies()[JSON_TYPE], JSON_TYPE)
        document = (await rest.http.get("/openapi.json")).json()
        answer = await asked(rest, "poll", AVRO_FRAMES.encode_poll(PollRequest()), AVRO_FRAMES_TYPE)
    content = document["paths"][TOPIC_PATH]["post"]["responses"]["200"]["content"]
    described = content[AVRO_FRAMES_TYPE]["schema"]["description"]
    schema = json.loads(described.split("`")[1])
    runs: Any = fastavro.schemaless_reader(
        BytesIO(answer.content), fastavro.parse_schema(schema), None
    )
    assert [row["payload"] for run in runs for row in (*run["messages"], *run["framed"])] == [
        None if message.is_tombstone else message.payload for message in MESSAGES
    ]


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"key": "k"},
        {"payload": "p", "base64": "/w=="},
        {"base64": "/w==", "key": "k"},
        {"bytes": "x", "headers": {"a": "b"}},
        {"payload": "p", "id": "0"},
        {"payload": 1},
        {"payload": "p", "key": 1},
        {"payload": "p", "headers": ["a"]},
        {"payload": "p", "headers": {"a": None}},
        {"payload": "p", "headers": {"a": {"base64": "!"}}},
        {"payload": {"base64": "/w==", "x": "y"}},
        {"payload": "p", "headers": {"\ud800": "x"}},
        None,
        [],
    ],
)
async def test_what_is_not_a_message_is_refused(message: Any) -> None:
    async with live() as rest:
        await rest.create()
        body = json.dumps({"messages": ["fine", message]}).encode()
        answer = await rest.http.post(
            f"{TOPIC}/publish", content=body, headers={"content-type": JSON_TYPE}
        )
        assert refusal(answer) == (400, "invalid_body")
        assert await polled(rest) == []


@pytest.mark.parametrize("content_type", TYPES)
async def test_caps_are_named_and_nothing_is_written(content_type: str) -> None:
    async with live(Limits(frame_bytes_max=2)) as rest:
        await rest.create()
        answer = await rest.http.post(
            f"{TOPIC}/publish",
            content=bodies()[content_type],
            headers={"content-type": content_type},
        )
        assert refusal(answer) == (413, "frame_too_large")
        assert await polled(rest) == []


@pytest.mark.parametrize("version", ["0", "1", "3", "two", ""])
async def test_other_versions_are_refused(version: str) -> None:
    async with live() as rest:
        await rest.create()
        for content_type in (f"avro/binary;version={version}", "application/json;encoding=base64"):
            answer = await rest.http.post(
                f"{TOPIC}/poll",
                content=AVRO_FRAMES.encode_poll(PollRequest()),
                headers={"content-type": content_type},
            )
            is_known = content_type == f"{AVRO_TYPE};version=1"
            assert is_known or refusal(answer) == (415, "unsupported_content_type")
        answer = await rest.http.post(
            f"{TOPIC}/poll",
            content=b"{}",
            headers={"content-type": JSON_TYPE, "accept": f"{ARROW_TYPE};version={version}"},
        )
        assert refusal(answer) == (406, "not_acceptable")
