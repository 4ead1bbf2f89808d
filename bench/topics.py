"""Topics of a measured server: creates and fills them, and finds positions within them.

It uses plain HTTP with Avro bodies, so that it is the same for TMS and for CDAP's server.
"""

import http.client
import random
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fastavro

from tms.core.values.frame import bodies_of, encode_body
from tms.core.values.message import FIRST_ID, Message
from tms.wire.avro_bodies import AVRO, CONSUME_RESPONSE_SCHEMA
from tms.wire.avro_frames import AVRO_FRAMES
from tms.wire.bodies import PollRequest, PublishRequest

_FILLERS = 4
_REQUEST_BYTES = 100_000
_SAMPLED_BY_ID_MAX = 200_000
_KEYS = 1_000
_ANSWER = fastavro.parse_schema(CONSUME_RESPONSE_SCHEMA)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of the server at `url`."""

    url: str
    name: str

    @property
    def path(self) -> str:
        """The path of the topic; `/publish` and `/poll` follow it."""
        return f"/v1/namespaces/default/topics/{self.name}"

    @property
    def whole_url(self) -> str:
        """The URL of the topic."""
        return self.url + self.path


@contextmanager
def connected(url: str) -> Iterator[http.client.HTTPConnection]:
    """Yield a connection to a server."""
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)) as connection:
        yield connection


def ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes,
    content_type: str = AVRO.content_type,
) -> bytes:
    """Return the answer to a request. Raises `RuntimeError` unless its status is 200."""
    connection.request(method, path, body, {"Content-Type": content_type} if body else {})
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != http.client.OK:
        raise RuntimeError(f"{method} {path}: {answer.status} {content[:200]!r}")
    return content


def create(url: str, *names: str) -> list[Topic]:
    """Create topics."""
    topics = [Topic(url, name) for name in names]

    def create_all(part: list[Topic]) -> None:
        with connected(url) as connection:
            for topic in part:
                ask(connection, "PUT", topic.path, b"")

    _in_parts(create_all, topics)
    return topics


def _body_of(number: int, payload_bytes: int, *, is_keyed: bool) -> tuple[bytes, bool]:
    payload = b"x" * payload_bytes
    if not is_keyed:
        return payload, False
    headers = {"trace": b"0123456789abcdef", "type": b"created"}
    return encode_body(payload, b"key-%03d" % (number % _KEYS), headers)


def fill(
    topics: Iterable[Topic], messages: int, payload_bytes: int = 100, *, is_keyed: bool = False
) -> tuple[int, int]:
    """Publish `messages` to each of the topics, and return the first and last ms of that.

    If `is_keyed`, each message has a key of 7 bytes and two headers.
    """
    per_request = min(messages, max(1, _REQUEST_BYTES // payload_bytes))
    bodies = [_body_of(number, payload_bytes, is_keyed=is_keyed) for number in range(per_request)]
    body_format = AVRO_FRAMES if is_keyed else AVRO
    body = body_format.encode_publish(PublishRequest(None, bodies_of(bodies)))

    def publish_all(part: list[Topic]) -> None:
        if part:
            with connected(part[0].url) as connection:
                for topic in part:
                    path = f"{topic.path}/publish"
                    ask(connection, "POST", path, body, body_format.content_type)

    started_ms = time.time_ns() // 1_000_000
    times = -(-messages // per_request)
    _in_parts(publish_all, [topic for topic in topics for _ in range(times)])
    return started_ms, time.time_ns() // 1_000_000


def _in_parts(work: Callable[[list[Topic]], None], items: list[Topic]) -> None:
    with ThreadPoolExecutor(_FILLERS) as pool:
        list(pool.map(work, [items[start::_FILLERS] for start in range(_FILLERS)]))


def poll(
    connection: http.client.HTTPConnection, topic: Topic, start: bytes | int, limit: int
) -> list[Message]:
    """Return messages of a topic."""
    body = AVRO.encode_poll(PollRequest(start, limit=limit))
    answer = BytesIO(ask(connection, "POST", f"{topic.path}/poll", body))
    rows: Any = fastavro.schemaless_reader(answer, _ANSWER, None)
    return [Message(row["payload"], id=row["id"]) for row in rows]


def starts(
    topic: Topic, filled_ms: tuple[int, int], count: int, *, between: tuple[float, float]
) -> list[bytes]:
    """Return `count` ids of a topic, from a random place between two parts of it (0 to 1)."""
    chance = random.Random(count)
    with connected(topic.url) as connection:
        some = poll(connection, topic, FIRST_ID, _SAMPLED_BY_ID_MAX)
        if len(some) < _SAMPLED_BY_ID_MAX:
            low, high = (int(part * len(some)) for part in between)
            return [some[chance.randrange(low, max(high, low + 1))].id for _ in range(count)]
        first_ms, last_ms = filled_ms
        found = []
        for _ in range(count):
            part = chance.uniform(*between)
            at_ms = int(first_ms + part * (last_ms - first_ms))
            found.append(poll(connection, topic, at_ms, 1)[0].id)
        return found


def last_id(topic: Topic, filled_ms: tuple[int, int], before: int) -> bytes:
    """Return the id of the message that is `before` messages before a topic's end."""
    with connected(topic.url) as connection:
        back_ms = 50
        while True:
            tail = poll(connection, topic, max(0, filled_ms[1] - back_ms), 1_000_000)
            if len(tail) >= before or back_ms > filled_ms[1]:
                return tail[-before].id
            back_ms *= 4


def write_starts(file: Path, positions: Iterable[tuple[Topic, bytes]]) -> Path:
    """Write positions for poll.lua; an empty id is the topic's start."""
    lines = (f"{topic.path} {start.hex()}\n" for topic, start in positions)
    file.write_text("".join(lines), encoding="utf-8")
    return file
