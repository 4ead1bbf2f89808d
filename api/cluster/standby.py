"""The application of a server of a cluster: the leader's while it leads, else one that forwards.

A server that stands by signs people in to its console itself. So it forwards only pages of callers
that it knows: a stranger takes nothing of what may be on its way to the leader.
"""

from collections.abc import Callable

from api.cluster.forwarding import Forwarder
from api.http.app import App
from api.http.application import Application
from api.http.endpoint import Endpoint
from api.http.errors import ErrorAnswer
from api.http.exchange import Exchange
from api.http.router import Router

LeftOfLease = Callable[[], float]
"""Returns the seconds that are left of this server's lease."""
_CONSOLE = "/console"
_OF_SIGNING_IN = ("/sign-in", "/sign-out", "/assets/{name}")
"""Pages of the console that each server has itself."""


class ClusterApp:
    """The application of a server of a cluster. Each request asks anew whether this server leads.

    When this server stops leading, the leader's application goes, with all that it remembers.
    """

    def __init__(self, following: App) -> None:
        """Follow, until `lead`."""
        self._following = following
        self._leading: App | None = None
        self._left_s: LeftOfLease = _nothing_left

    def lead(self, app: App, left_s: LeftOfLease) -> None:
        """Answer by `app` while there is something left of the lease."""
        self._leading, self._left_s = app, left_s

    def follow(self) -> None:
        """Answer as a follower again."""
        self._leading, self._left_s = None, _nothing_left

    @property
    def routes(self) -> Router[Endpoint]:
        """The routes for a request now. The lease is asked for each request."""
        leading = self._leading
        if leading is not None and self._left_s() > 0:
            return leading.routes
        return self._following.routes

    def error(self, error: Exception) -> ErrorAnswer:
        """Return the answer to what is not a request."""
        return self._following.error(error)


def with_leaders_pages(app: Application, forwarder: Forwarder) -> Application:
    """Forward requests for the pages of an application's console, which identifies callers."""
    to_leader, own = _ToLeader(forwarder), [f"{_CONSOLE}{each}" for each in _OF_SIGNING_IN]
    for route in app.routes.routes:
        if route.template.split("/")[1] == _CONSOLE[1:] and route.template not in own:
            route.target.routing = to_leader
    return app


class _ToLeader:
    """Forwards requests of callers that are known. Fulfils `api.http.endpoint.Routing`."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder

    async def answer(self, exchange: Exchange, endpoint: Endpoint) -> None:
        """Have the leader answer, which decides what the caller may. Raises as `admit`, `forward`.

        Raises `NotAuthenticated`, `RateExceeded` before anything is forwarded.
        """
        exchange.operation = exchange.admission = None
        assert endpoint.access is not None, "a console that identifies callers has access control"
        await endpoint.access.admit(exchange)
        await self._forwarder.forward(exchange)

    def leader_elsewhere(self, _: Exchange) -> str | None:
        """Return the URL of the leader; None: nobody is known to lead."""
        return self._forwarder.address


def _nothing_left() -> float:
    return 0.0
