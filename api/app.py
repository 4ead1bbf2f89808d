"""Puts the endpoints together into one ASGI application.

Two ways lead to an endpoint. The router knows all of them and answers 404 and 405. But finding an
endpoint through it costs as much as a third of an empty request: uvicorn answers 28.0 k requests a
second from a bare callable, 22.5 k through a bare `Router`, 19.1 k through `Starlette` with its
middleware. So the hot endpoints are found by their whole path before the router is asked; those of
topics in a bounded dict, but not those of transactions, whose paths are new each time. Whatever is
not found there, for whatever reason, goes to the router, which knows the hot endpoints too. The
endpoints are raw ASGI callables either way (`api.endpoint`); most requests to hot ones reach them
without ASGI (`api.direct`), which asks here where they are.
"""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial

from prometheus_client import CollectorRegistry
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from api import (
    cleanup,
    cluster,
    debug,
    health,
    messages,
    namespaces,
    poll,
    ranges,
    subscriptions,
    topics,
    transaction_reports,
    transactions,
)
from api.arriving import ArrivingBytes
from api.content import takes_gzip
from api.deadlines import Deadlines
from api.direct import HotApp, HotEndpoint
from api.endpoint import Endpoint
from api.exchange import Context, Exchange, TopicInfo
from api.metrics import RestMetrics
from api.openapi import document_of
from api.operation import Operation
from api.topics import NAMESPACE, TOPIC
from api.transactions import TRANSACTION, TRANSACTIONS
from tms.core.clock import Clock, SystemClock
from tms.core.cluster import Cluster
from tms.core.errors import InvalidRequest
from tms.core.limits import NAME_CHARS_MAX, Limits
from tms.core.services import ServerServices

OPERATIONS: tuple[Operation, ...] = (
    *namespaces.OPERATIONS,
    *topics.OPERATIONS,
    *messages.OPERATIONS,
    *poll.OPERATIONS,
    *ranges.OPERATIONS,
    *transaction_reports.OPERATIONS,
    *transactions.OPERATIONS,
    *subscriptions.OPERATIONS,
    *cleanup.OPERATIONS,
    *cluster.OPERATIONS,
    *debug.OPERATIONS,
    *health.OPERATIONS,
)

_HOT_PATHS_KEPT = 16_384
_HOT_PATH_CHARS_MAX = 2 * NAME_CHARS_MAX + len("/v1/namespaces//topics//rollback")

_GZIP_LEVEL = 1
"""Most of the size for a fraction of the time: a poll is read at once, not kept."""
_GZIP_BYTES_MIN = 1024
"""Below that, an answer fits in one packet anyhow."""


def create_app(
    services: ServerServices,
    limits: Limits,
    *,
    registry: CollectorRegistry,
    topic_info: TopicInfo = "seed",
    clock: Clock | None = None,
    cluster_state: Cluster | None = None,
) -> HotApp:
    """Return the application that serves `services`; its metrics are added to `registry`."""
    metrics = RestMetrics()
    registry.register(metrics)
    context = Context(
        services=services,
        limits=limits,
        clock=clock or SystemClock(),
        registry=registry,
        topic_info=topic_info,
        body_deadlines=Deadlines(limits.request_body_s_max),
        arriving=ArrivingBytes(limits.queue_bytes_max),
        openapi=json.dumps(document_of(OPERATIONS), indent=1).encode(),
        cluster=cluster_state,
    )
    unmatched = metrics.of("unmatched")
    by_path: dict[str, dict[str, ASGIApp]] = {}
    hot: dict[str, tuple[Endpoint, ASGIApp]] = {}
    for operation in OPERATIONS:
        endpoint = Endpoint(operation.handler, context, metrics.of(operation.name))
        app = _Compressed(endpoint) if operation.is_compressed else endpoint
        by_path.setdefault(operation.path, {})[operation.method] = app
        if operation.is_hot:
            hot[operation.path] = endpoint, app
    routes = [
        Route(
            path,
            _Methods(endpoints, Endpoint(partial(_refuse_method, endpoints), context, unmatched)),
        )
        for path, endpoints in by_path.items()
    ]
    not_found = Endpoint(_refuse_path, context, unmatched)
    return _App(hot, Router(routes, redirect_slashes=False, default=not_found))


async def _refuse_path(exchange: Exchange) -> None:
    raise InvalidRequest("not_found", path=exchange.scope["path"])


async def _refuse_method(methods: Iterable[str], exchange: Exchange) -> None:
    allowed = {*methods, "HEAD"} if "GET" in methods else methods
    raise InvalidRequest(
        "method_not_allowed", method=exchange.scope["method"], allow=", ".join(sorted(allowed))
    )


class _App:
    """The application: hot paths are found at once, all others through the router."""

    def __init__(self, hot: Mapping[str, tuple[Endpoint, ASGIApp]], router: ASGIApp) -> None:
        self._router = router

        def find(path: str) -> HotEndpoint | None:
            found, names = None, {}
            match path.split("/"):
                case ["", "v1", "namespaces", namespace, "topics", topic, verb]:
                    found = hot.get(f"{TOPIC}/{verb}")
                    names = {"namespace": namespace, "topic": topic}
                case ["", "v1", "namespaces", namespace, verb]:
                    found = hot.get(f"{NAMESPACE}/{verb}")
                    names = {"namespace": namespace}
                case ["", "v1", "transactions", transaction_id, verb]:
                    found = hot.get(f"{TRANSACTION}/{verb}")
                    names = {"transaction_id": transaction_id}
                case ["", "v1", "transactions"]:
                    found = hot.get(TRANSACTIONS)
            return HotEndpoint(*found, names) if found and all(names.values()) else None

        self._find = find
        self._find_kept = lru_cache(_HOT_PATHS_KEPT)(find)

    def find(self, path: str) -> HotEndpoint | None:
        """Return the endpoint that a POST to `path` goes to, None where the router is to say."""
        if len(path) > _HOT_PATH_CHARS_MAX:
            return None
        return self._find(path) if path.startswith(TRANSACTIONS) else self._find_kept(path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self.find(scope.get("path", "")) if scope.get("method") == "POST" else None
        if found is None:
            await self._router(scope, receive, send)
            return
        scope["path_params"] = found.path_params
        await found.app(scope, receive, send)


class _Methods:
    """The endpoints of one path by method."""

    def __init__(self, endpoints: Mapping[str, ASGIApp], refusal: ASGIApp) -> None:
        self._endpoints = endpoints
        self._refusal = refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        await self._endpoints.get(method, self._refusal)(scope, receive, send)


class _Compressed:
    """An endpoint whose answers are compressed for those who take gzip, at no cost to others."""

    def __init__(self, endpoint: ASGIApp) -> None:
        self._plain = endpoint
        self._gzip = GZipMiddleware(
            endpoint, minimum_size=_GZIP_BYTES_MIN, compresslevel=_GZIP_LEVEL
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        for name, value in scope["headers"]:
            if name == b"accept-encoding" and takes_gzip(value):
                await self._gzip(scope, receive, send)
                return
        await self._plain(scope, receive, send)
