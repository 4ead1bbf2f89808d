"""Services on the memory store, served on 127.0.0.1, and a client, for the tests of REST.

By default write pointers are another manager's, so that any is accepted; with `own` they are the
server's.
"""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, cast

import httpx
from prometheus_client import CollectorRegistry

from api.app import create_app
from api.cluster.routing import route_alone
from api.http.application import Application
from api.http.context import TopicInfo
from api.http.door.callers import Callers
from api.http.listener.server import ListeningAddress, serve
from api.http.listener.tls import ServerTls
from tests.manual_clock import ManualClock
from tests.sharding.three_shards import open_three
from tests.waiting import in_time, until
from tms.core.errors.catalogue import CATALOGUE
from tms.core.limits import Limits
from tms.core.values.shards import ShardBy
from tms.core.values.topic import TopicId
from tms.messaging.groups.service import GroupService
from tms.messaging.service import Service
from tms.server.node import OpenServices, open_services
from tms.server.sharded import ShardedServices
from tms.settings import Settings
from tms.wire.avro_bodies import AVRO
from tms.wire.bodies import PollRequest, PublishRequest
from tms.wire.json_values import bytes_of

NOW_MS = 1_700_000_000_000
POINTER = NOW_MS * 1_000_000
TOPICS = "/v1/namespaces/ns/topics"
TOPIC = f"{TOPICS}/t"
AVRO_TYPE = "avro/binary"
JSON_TYPE = "application/json"

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parent.parent / "wire" / "golden.json").read_text()
)


def avro_publish(*payloads: bytes, pointer: int | None = None) -> bytes:
    return AVRO.encode_publish(PublishRequest(pointer, payloads))


def avro_poll(**asked: Any) -> bytes:
    return AVRO.encode_poll(PollRequest(**asked))


class Rest:
    """An application and a client of it."""

    def __init__(
        self,
        services: OpenServices | ShardedServices,
        clock: ManualClock,
        app: Application,
        http: httpx.AsyncClient,
        registry: CollectorRegistry,
    ) -> None:
        self.services = services
        home = services.sharding.home("ns") if isinstance(services, ShardedServices) else 0
        self.service: Service = cast("Service", services.in_shard(home).messaging)
        self.clock = clock
        self.app = app
        self.http = http
        self.registry = registry

    async def create(self, path: str = TOPIC, **properties: Any) -> None:
        body = json.dumps(properties) if properties else b""
        answer = await self.http.put(path, content=body)
        assert (answer.status_code, answer.content) == (200, b"")

    async def post(
        self,
        verb: str,
        body: bytes | str | dict[str, Any],
        content_type: str | None = None,
        *,
        topic: str = TOPIC,
        query: str = "",
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """Post bytes as Avro and a dict as JSON, unless `content_type` says otherwise."""
        if isinstance(body, dict):
            body, content_type = json.dumps(body), content_type or JSON_TYPE
        sent = {"content-type": content_type or AVRO_TYPE, **(headers or {})}
        return await self.http.post(f"{topic}/{verb}{query}", content=body, headers=sent)

    async def publish(self, *payloads: bytes, pointer: int | None = None) -> httpx.Response:
        answer = await self.post("publish", avro_publish(*payloads, pointer=pointer))
        assert answer.status_code == 200
        return answer

    async def messages(self, topic: str = TOPIC, **asked: Any) -> list[tuple[str, bytes]]:
        """Return the ids and payloads that a poll returns."""
        answer = await self.post("poll", asked, topic=topic)
        assert answer.status_code == 200, answer.text
        return [(m["id"], bytes_of(m["payload"])) for m in answer.json()]

    async def payloads(self, **asked: Any) -> list[bytes]:
        return [payload for _, payload in await self.messages(**asked)]

    def metric(self, name: str, **labels: str) -> float:
        """Return a value, the sum over shards if there are several."""
        value = self.registry.get_sample_value(name, labels)
        if value is None and isinstance(self.services, ShardedServices):
            each = [{**labels, "shard": str(n)} for n in range(len(self.services.shards))]
            return sum(self.registry.get_sample_value(name, one) or 0.0 for one in each)
        return value or 0.0

    def waiters(self) -> int:
        """Return how many polls wait for a message."""
        state = self.service._states.loaded(TopicId("ns", "t"))
        return len(state._waiters) if state else 0

    def takers(self) -> int:
        """Return how many takes wait for a message."""
        groups = cast("GroupService", self.services.in_shard(0).groups)
        return sum(len(group.waiting) for group in groups._groups.loaded)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let other tasks run until `condition` holds."""
        await until(condition)


def refusal(answer: httpx.Response) -> tuple[int, str]:
    """Return status and code of an error after checking it against the catalogue."""
    error = answer.json()["error"]
    assert answer.headers["content-type"] == JSON_TYPE
    assert set(error) - {"request_id"} == {"code", "message", "detail"}
    assert error.get("request_id") == answer.headers.get("x-request-id")
    problem = CATALOGUE[error["code"]]
    assert (answer.status_code, error["message"]) == (problem.status, problem.message)
    return answer.status_code, error["code"]


def settings_of(*, own: bool) -> Settings:
    """Return server settings in which write pointers are the server's own, or another manager's."""
    return Settings.model_construct(transactions="own" if own else "foreign")


class Live(Rest):
    """The same over a socket, with the means to stop the server."""

    host = "127.0.0.1"
    port: int
    stop: asyncio.Event
    stopped: asyncio.Task[None]

    async def connect(self) -> "Wire":
        return Wire(*await asyncio.open_connection(self.host, self.port))


class Wire:
    """A connection on which a test writes HTTP by hand.

    `serving` closes the connections to its server that a test leaves open, so that a failing test
    does not break another one.
    """

    left_open: ClassVar[set["Wire"]] = set()

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._peer = writer.get_extra_info("peername")
        self.left_open.add(self)

    @classmethod
    def abort_all_to(cls, port: int | None) -> None:
        """Abort the connections to a port that are still open."""
        for wire in [each for each in cls.left_open if each._peer and each._peer[1] == port]:
            wire.writer.transport.abort()
            cls.left_open.discard(wire)

    async def send(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a request's head, with Content-Length by default, and `body`."""
        named = dict(headers or {})
        if "transfer-encoding" not in named:
            named.setdefault("content-length", str(len(body)))
        fields = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n"
        self.writer.write(head.encode() + body)
        await self.writer.drain()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Read one answer of known length."""
        async with in_time():
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.split(": ", 1) for line in head[1:] if line)
            body = await self.reader.readexactly(int(headers["content-length"]))
        return int(head[0].split()[1]), headers, body

    async def rest(self) -> bytes:
        """Read until the server closes the connection."""
        async with in_time():
            return await self.reader.read()

    async def close(self) -> None:
        self.left_open.discard(self)
        self.writer.close()
        await self.writer.wait_closed()


@asynccontextmanager
async def serving(
    app: Application,
    limits: Limits,
    *,
    on_stopping: Callable[[], None] = lambda: None,
    stop: asyncio.Event | None = None,
    grace_s: float = 5.0,
    tls: ServerTls | None = None,
) -> AsyncIterator[tuple[str, asyncio.Task[None]]]:
    """Serve `app` on 127.0.0.1; give its URL and the task that serves it."""
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = stop or asyncio.Event()
    task = asyncio.create_task(
        serve(
            [ListeningAddress(app, "127.0.0.1", 0)],
            limits=limits,
            on_started=started.set_result,
            on_stopping=on_stopping,
            stop=stop,
            grace_s=grace_s,
            tls=tls,
        )
    )
    url = ""
    try:
        url = await started
        yield url, task
    finally:
        Wire.abort_all_to(httpx.URL(url).port)
        stop.set()
        await task


@asynccontextmanager
async def live(
    limits: Limits | None = None,
    *,
    topic_info: TopicInfo = "seed",
    grace_s: float = 5.0,
    own: bool = False,
    shard_by: ShardBy | None = None,
    callers: Callers | None = None,
) -> AsyncIterator[Live]:
    """Open services, on three shards if there is a rule for them, and serve them."""
    limits = limits or Limits()
    clock = ManualClock(NOW_MS)
    registry = CollectorRegistry()
    settings = settings_of(own=own)
    services: OpenServices | ShardedServices
    if shard_by is None:
        services = await open_services(
            "memory:", limits, clock, settings=settings, registry=registry
        )
    else:
        services = await open_three(shard_by, limits, clock, settings, registry)
    app = create_app(
        services, limits, registry=registry, topic_info=topic_info, clock=clock, callers=callers
    )
    if services.sharding is not None:
        route_alone(app, services.sharding, services.in_shard)
    stop = asyncio.Event()
    on_stopping = services.stop_waiting
    try:
        async with (
            serving(app, limits, on_stopping=on_stopping, stop=stop, grace_s=grace_s) as started,
            httpx.AsyncClient(
                base_url=started[0],
                headers={"accept-encoding": "identity"},
                trust_env=False,
                verify=False,
            ) as http,
        ):
            rest = Live(services, clock, app, http, registry)
            rest.port = http.base_url.port or 0
            rest.stop = stop
            rest.stopped = started[1]
            yield rest
    finally:
        await services.close()


def zipped(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)
