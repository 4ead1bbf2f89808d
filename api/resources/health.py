"""Information about the server itself: whether it is up and ready, its metrics, a first page."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from functools import partial

import msgspec
from prometheus_client import Metric, exposition
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from api.http.door.guarded import DecidedBy
from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import Operation
from api.http.protocol.media_types import has_arrow
from tms import __version__
from tms.core.errors import TmsError
from tms.core.limits import JSON_INTEGER_MAX
from tms.core.runtime.supervision import failing
from tms.core.services.cluster import INSTANCE
from tms.security.resources import Action
from tms.wire.json_fields import TEXT, Json

_OPEN_METRICS = b"application/openmetrics-text"
_TEXT_TYPE = b"text/plain; charset=utf-8"
_OBJECT = {"application/json": {"schema": {"type": "object"}}}
_COUNT = {"type": "integer", "minimum": 0, "maximum": JSON_INTEGER_MAX}


def _object(required: Json, **optional: Json) -> Json:
    fields = {**required, **optional}
    return {"type": "object", "required": [*required], "properties": fields}


_FAILING = _object({"task": TEXT, "since_ms": _COUNT, "times": _COUNT, "reason": TEXT})
_STATUS = {"application/json": {"schema": _object({"status": TEXT})}}
_READY = {
    "application/json": {
        "schema": _object(
            {"status": TEXT},
            failing={"type": "array", "items": _FAILING},
            warnings={"type": "array", "items": TEXT},
        )
    }
}
_TEXT = {"text/plain": {"schema": TEXT}}


class _Collected(Collector):
    """Metrics as they were at one moment."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Return them."""
        return self._metrics


async def welcome(exchange: Exchange) -> None:
    """Answer with what this service is and how to begin."""
    host = exchange.headers.get(b"host", b"127.0.0.1:11015").decode("latin-1")
    topic = f"{exchange.peer.scheme}://{host}/v1/namespaces/default/topics/hello"
    # Anybody may request this, so it does not say which version's faults to try.
    is_open = exchange.context.access is None
    curl = "curl" if is_open else 'curl -H "Authorization: Bearer $TMS_TOKEN"'
    post = f"{curl} -X POST -H 'Content-Type: application/json'"
    version = {"version": __version__} if is_open else {}
    body = {
        "name": "TMS, a transactional messaging service",
        **version,
        "arrow": has_arrow(),
        "docs": "/docs",
        "openapi": "/openapi.json",
        "health": "/health",
        "ready": "/ready",
        "metrics": "/metrics",
        "try": [
            f"{curl} -X PUT {topic}",
            f'{post} {topic}/publish -d \'{{"messages": ["hello"]}}\'',
            f"{post} {topic}/poll -d '{{}}'",
            "tms --help",
        ],
    }
    await exchange.answer(OK, msgspec.json.format(json.dumps(body).encode(), indent=1), JSON_TYPE)


async def health(exchange: Exchange) -> None:
    """Answer that the process is up."""
    instance_id = exchange.context.instance_id
    headers = () if instance_id is None else ((INSTANCE.encode(), b"%d" % instance_id),)
    await exchange.answer(OK, b'{"status": "up"}', JSON_TYPE, headers)


async def ready(exchange: Exchange) -> None:
    """Answer whether a publish would be accepted now, which tasks fail, and what fills up."""
    body: dict[str, object] = {}
    if failing():
        body["failing"] = [each._asdict() for each in failing()]
    services, cluster = exchange.context.services, exchange.context.cluster
    findings = [*services.findings(), *(() if cluster is None else cluster.findings())]
    away = [f"{each.where}: {each.text}" for each in findings]
    if warnings := [*away, *services.warnings()]:
        body["warnings"] = warnings
    try:
        exchange.context.check_ready()
    except TmsError as error:
        error.detail = {**error.detail, **body}
        raise
    await exchange.answer(OK, json.dumps({"status": "ready", **body}).encode(), JSON_TYPE)


async def metrics(exchange: Exchange) -> None:
    """Answer with all metrics in Prometheus' text form, or in OpenMetrics if Accept names it."""
    await exchange.context.services.refresh_metrics()
    collected = _Collected(list(exchange.context.registry.collect()))
    is_open = _OPEN_METRICS in exchange.headers.get(b"accept", b"").lower()
    form = openmetrics if is_open else exposition
    # Not in the event loop: with many topics the text takes long.
    text = await asyncio.to_thread(form.generate_latest, collected)
    await exchange.answer(OK, text, form.CONTENT_TYPE_LATEST.encode())


async def ping(exchange: Exchange) -> None:
    """Answer as CDAP's servers do, because CDAP's clients send this."""
    await exchange.answer(OK, b"OK.", _TEXT_TYPE)


async def openapi(exchange: Exchange) -> None:
    """Answer with the OpenAPI document."""
    await exchange.answer(OK, exchange.context.openapi(), JSON_TYPE)


_row = partial(Operation, method="GET", tag="Server")
OPERATIONS = (
    _row(
        name="welcome",
        action=None,
        path="/",
        handler=welcome,
        is_page=True,
        summary="Show what this service is, and how to begin",
        description="The page is for people.",
        success="Some first commands.",
        answer=_OBJECT,
    ),
    _row(
        name="health",
        action=None,
        path="/health",
        handler=health,
        is_probe=True,
        summary="Check that the process is up",
        description="If a process does not answer this, restart it.",
        success="The process is up.",
        answer=_STATUS,
    ),
    _row(
        name="ready",
        action=None,
        path="/ready",
        handler=ready,
        is_probe=True,
        summary="Check that the server accepts publishes",
        description="The status is 503 if it does not: send no requests to this server for the "
        "moment. "
        "`failing` lists tasks of the server that an unexpected error ended in the last minute; "
        "they are restarted. `warnings` say which resources become scarce, and which shards of "
        "the store have no leader; the others are served. Both are omitted if they are empty.",
        success="The server accepts publishes.",
        answer=_READY,
        errors=("stopping", "store_unavailable", "queue_full"),
    ),
    _row(
        name="metrics",
        action=Action.OPERATE,
        path="/metrics",
        handler=metrics,
        summary="Metrics, for Prometheus",
        description="The answer is in Prometheus' text format, or in OpenMetrics if Accept names "
        "that. docs/metrics.md lists all. An operation has no series before its first request.",
        success="The metrics.",
        answer=_TEXT | {"application/openmetrics-text": {"schema": TEXT}},
    ),
    _row(
        name="ping",
        action=None,
        path="/ping",
        handler=ping,
        summary="Answer OK, for CDAP's clients",
        description="CDAP's clients use this; `/health` is the same in JSON.",
        success="`OK.`",
        answer=_TEXT,
    ),
    _row(
        name="openapi",
        action=Action.DESCRIBE,
        decided_by=DecidedBy.ANSWER,
        path="/openapi.json",
        handler=openapi,
        summary="This document",
        description="The document is in OpenAPI 3.1.",
        success="The document.",
        answer=_OBJECT,
        is_compressed=True,
    ),
)
