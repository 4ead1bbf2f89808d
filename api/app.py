"""Puts the endpoints together into one application, found by one table of routes."""

import json
from collections.abc import Iterable
from functools import partial

from prometheus_client import CollectorRegistry

from api import (
    cleanup,
    cluster,
    debug,
    documentation,
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
from api.http.body_memory import BodyMemory
from api.http.callers import Callers
from api.http.context import Context, ErrorAnswer, Guard, TopicInfo
from api.http.endpoint import Endpoint
from api.http.errors import answer_of
from api.http.exchange import Exchange
from api.http.metrics import RestMetrics
from api.http.operation import Operation
from api.http.router import Route, RouteMatch, Router
from api.openapi import document_of
from tms.core.clock import Clock, SystemClock
from tms.core.cluster import Cluster
from tms.core.errors import InvalidRequest
from tms.core.limits import Limits
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
    *documentation.OPERATIONS,
)


class Application:
    """Operations, found by method and path."""

    def __init__(
        self, context: Context, metrics: RestMetrics, operations: Iterable[Operation]
    ) -> None:
        """Answer requests to `operations`, and refuse all others."""
        self.context = context
        self._unmatched = metrics.of("unmatched")
        self._router: Router[Endpoint] = Router(
            Route(
                operation.method,
                operation.path,
                Endpoint(operation.handler, context, metrics.of(operation.name), operation),
            )
            for operation in operations
        )

    def find(self, method: str, path: str) -> RouteMatch[Endpoint]:
        """Return where a request leads; if nowhere, that refuses it.

        A slash at the end is passed over, as CDAP does.
        """
        try:
            return self._router.find(method, path[:-1] if path[-1:] == "/" != path else path)
        except InvalidRequest as error:
            return RouteMatch(Endpoint(partial(_refuse, error), self.context, self._unmatched), {})

    def error(self, error: Exception) -> ErrorAnswer:
        """Return the answer to what is no request."""
        return self.context.error_form(error)


async def _refuse(error: InvalidRequest, _: Exchange) -> None:
    raise error


def create_app(
    services: ServerServices,
    limits: Limits,
    *,
    registry: CollectorRegistry,
    topic_info: TopicInfo = "seed",
    clock: Clock | None = None,
    cluster_state: Cluster | None = None,
    callers: Callers | None = None,
    guards: tuple[Guard, ...] = (),
) -> Application:
    """Return the application that serves `services`; its metrics are added to `registry`."""
    metrics = RestMetrics()
    registry.register(metrics)
    context = Context(
        services=services,
        limits=limits,
        clock=clock or SystemClock(),
        registry=registry,
        topic_info=topic_info,
        body_memory=BodyMemory(limits.queue_bytes_max),
        openapi=json.dumps(document_of(OPERATIONS), indent=1).encode(),
        callers=callers or Callers(),
        error_form=answer_of,
        guards=guards,
        cluster=cluster_state,
    )
    return Application(context, metrics, OPERATIONS)
