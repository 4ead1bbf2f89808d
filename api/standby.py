"""A server of a cluster as an application: the leader's, while it leads; else one that forwards.

What tells of the server itself (`/health`, `/ready`, `/metrics`, `/v1/cluster`) is answered here in
either case.
"""

from collections.abc import Callable
from typing import cast

from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Receive, Scope, Send

from api import cluster, health
from api.arriving import ArrivingBytes
from api.deadlines import Deadlines
from api.direct import HotApp, HotEndpoint
from api.endpoint import Endpoint
from api.exchange import Context, Exchange
from api.forwarding import Forwarder
from api.metrics import RestMetrics
from tms.core.clock import SystemClock
from tms.core.cluster import Cluster
from tms.core.errors import NoLeader
from tms.core.limits import Limits
from tms.core.services import ServerServices

LeftOfLease = Callable[[], float]
"""Returns how many seconds this server leads yet."""

_OWN = ("/health", "/ready", "/metrics", cluster.CLUSTER)


class _StandingBy:
    """What the operations that are answered here ask of services, where there are none."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder

    @property
    def messaging(self) -> "_StandingBy":
        return self

    def check_ready(self) -> None:
        """Raise `NoLeader` where nobody is known who would take a publish."""
        if self._forwarder.address is None:
            raise NoLeader


class Standby:
    """The application of a server that does not lead."""

    def __init__(
        self,
        forwarder: Forwarder,
        cluster_state: Cluster,
        limits: Limits,
        registry: CollectorRegistry,
    ) -> None:
        metrics = RestMetrics()
        registry.register(metrics)
        context = Context(
            services=cast("ServerServices", _StandingBy(forwarder)),
            limits=limits,
            clock=SystemClock(),
            registry=registry,
            topic_info="seed",
            body_deadlines=Deadlines(limits.request_body_s_max),
            arriving=ArrivingBytes(limits.queue_bytes_max),
            openapi=b"",
            cluster=cluster_state,
        )
        operations = (*health.OPERATIONS, *cluster.OPERATIONS)
        self._own: dict[str, ASGIApp] = {
            operation.path: Endpoint(operation.handler, context, metrics.of(operation.name))
            for operation in operations
            if operation.path in _OWN
        }

        async def forward(exchange: Exchange) -> None:
            await forwarder.forward(exchange)

        self._forward = Endpoint(forward, context, metrics.of("forwarded"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request here, or have the leader answer it."""
        is_read = scope["method"] in ("GET", "HEAD")
        own = self._own.get(scope["path"]) if is_read else None
        await (own or self._forward)(scope, receive, send)


class ClusterApp:
    """The application of a server of a cluster."""

    def __init__(self, standby: ASGIApp) -> None:
        """Stand by, until `lead`."""
        self._standby = standby
        self._leading: HotApp | None = None
        self._left_s: LeftOfLease = _nothing_left

    def lead(self, app: HotApp, left_s: LeftOfLease) -> None:
        """Answer by `app` while there is something left of the lease."""
        self._leading, self._left_s = app, left_s

    def stand_by(self) -> None:
        """Answer by the standby again."""
        self._leading, self._left_s = None, _nothing_left

    def find(self, path: str) -> HotEndpoint | None:
        """Return the endpoint here that a POST to `path` goes to."""
        leading = self._leading
        return leading.find(path) if leading is not None and self._left_s() > 0 else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        leading = self._leading
        is_leading = leading is not None and self._left_s() > 0
        await (leading if leading is not None and is_leading else self._standby)(
            scope, receive, send
        )


def _nothing_left() -> float:
    return 0.0
