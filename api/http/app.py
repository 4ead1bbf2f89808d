"""The application that answers the requests of a listener."""

from typing import Protocol

from api.http.context import ErrorAnswer
from api.http.endpoint import Endpoint
from api.http.router import RouteMatch


class App(Protocol):
    """Answers requests."""

    def find(self, method: str, path: str) -> RouteMatch[Endpoint]:
        """Return where a request leads; `path` is as it came. If nowhere, that refuses it."""
        ...

    def error(self, error: Exception) -> ErrorAnswer:
        """Return the answer to what is no request."""
        ...
