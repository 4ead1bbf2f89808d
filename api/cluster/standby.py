"""The application of a server of a cluster: the leader's while it leads, else one that forwards."""

from collections.abc import Callable

from api.http.app import App
from api.http.endpoint import Endpoint
from api.http.errors import ErrorAnswer
from api.http.router import Router

LeftOfLease = Callable[[], float]
"""Returns the seconds that are left of this server's lease."""


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


def _nothing_left() -> float:
    return 0.0
