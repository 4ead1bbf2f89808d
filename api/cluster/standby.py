"""A server of a cluster as an application: the leader's, while it leads; else one that forwards.

Operations on the server itself, like `/health`, are answered here in either case.
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import cast

from prometheus_client import CollectorRegistry

from api.cluster.forwarding import Forwarder
from api.http.access_control import AccessControl
from api.http.app import App
from api.http.application import Application, without_last_slash
from api.http.body_memory import BodyMemory
from api.http.callers import Callers
from api.http.context import Context, ErrorAnswer
from api.http.endpoint import Endpoint
from api.http.errors import answer_of
from api.http.exchange import Exchange
from api.http.metrics import RestMetrics
from api.http.operation import Operation
from api.http.router import Route, RouteMatch, Router
from tms.core.cluster import Cluster
from tms.core.errors import InvalidRequest, NoLeader
from tms.core.limits import Limits
from tms.core.services import ServerServices
from tms.core.trusted_clock import TrustedClock

LeftOfLease = Callable[[], float]
"""Returns how many seconds this server leads yet."""


class _StandingBy:
    """The services of a follower: only those that the local operations need."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder

    @property
    def messaging(self) -> "_StandingBy":
        return self

    def check_ready(self) -> None:
        """Raise `NoLeader` where nobody is known who would take a publish."""
        if self._forwarder.address is None:
            raise NoLeader

    async def refresh_metrics(self) -> None:
        """Do nothing: a server that does not lead knows of no subscriptions."""

    def warnings(self) -> list[str]:
        """Return nothing: the leader tells what fills up."""
        return []


class Standby:
    """The application of a server that does not lead."""

    def __init__(
        self,
        operations: Collection[Operation],
        forwarder: Forwarder,
        cluster_state: Cluster,
        limits: Limits,
        *,
        clock: TrustedClock,
        registry: CollectorRegistry,
        open_operations: Collection[Operation] = (),
        callers: Callers | None = None,
        access: AccessControl | None = None,
    ) -> None:
        """Answer `operations` here, and have the leader answer all else.

        Nobody has to be known for `open_operations` that `access` does not guard.
        """
        metrics = RestMetrics()
        registry.register(metrics)
        context = Context(
            services=cast("ServerServices", _StandingBy(forwarder)),
            limits=limits,
            clock=clock,
            registry=registry,
            topic_info="seed",
            body_memory=BodyMemory(limits.queue_bytes_max),
            openapi=b"",
            callers=callers or Callers(),
            error_form=answer_of,
            cluster=cluster_state,
            access=access,
        )
        self._own = Application(context, metrics, operations)
        self._own_changes = {(e.method, e.path) for e in operations if e.method != "GET"}
        forward, counted = partial(_forward, forwarder), metrics.of("forwarded")
        self._forward: RouteMatch[Endpoint] = RouteMatch(Endpoint(forward, context, counted), {})
        own = {each.path for each in operations}
        self._here: Router[RouteMatch[Endpoint] | None] = Router(
            Route("GET", path, None) for path in own
        )
        """The paths that are not just forwarded: None for those that are answered here."""
        for each in open_operations:
            if access is not None and not access.guards(each) and each.path not in own:
                # Nobody has to be known for it, whoever answers it.
                endpoint = Endpoint(forward, context, counted, each)
                self._here.add(Route("GET", each.path, RouteMatch(endpoint, {})))

    def find(self, method: str, path: str) -> RouteMatch[Endpoint]:
        """Return what answers a request here, or has the leader answer it.

        Paths lead here where they lead at the leader, however they are written.
        """
        if method not in ("GET", "HEAD"):
            is_own = (method, without_last_slash(path)) in self._own_changes
            return self._own.find(method, path) if is_own else self._forward
        try:
            here = self._here.find(method, without_last_slash(path)).target
        except InvalidRequest:
            return self._forward
        return self._own.find(method, path) if here is None else here

    def error(self, error: Exception) -> ErrorAnswer:
        """Return the answer to what is no request."""
        return self._own.error(error)


async def _forward(forwarder: Forwarder, exchange: Exchange) -> None:
    await forwarder.forward(exchange)


class ClusterApp:
    """The application of a server of a cluster. Each request asks anew whether this server leads.

    What the leading application remembers of requests goes with it when this server leads no more.
    """

    def __init__(self, standby: App) -> None:
        """Stand by, until `lead`."""
        self._following = standby
        self._leading: App | None = None
        self._left_s: LeftOfLease = _nothing_left

    def lead(self, app: App, left_s: LeftOfLease) -> None:
        """Answer by `app` while there is something left of the lease."""
        self._leading, self._left_s = app, left_s

    def follow(self) -> None:
        """Answer by the standby again."""
        self._leading, self._left_s = None, _nothing_left

    def find(self, method: str, path: str) -> RouteMatch[Endpoint]:
        """Return where a request leads now: the lease is asked for each."""
        leading = self._leading
        if leading is not None and self._left_s() > 0:
            return leading.find(method, path)
        return self._following.find(method, path)

    def error(self, error: Exception) -> ErrorAnswer:
        """Return the answer to what is no request."""
        return self._following.error(error)


def _nothing_left() -> float:
    return 0.0
