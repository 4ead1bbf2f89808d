"""The application that answers the requests of a listener."""

from typing import Protocol

from api.http.endpoint import Endpoint
from api.http.errors import ErrorAnswer
from api.http.router import Router


class App(Protocol):
    """Answers requests."""

    @property
    def routes(self) -> Router[Endpoint]:
        """Where requests lead now: each is looked up there once."""
        ...

    def error(self, error: Exception) -> ErrorAnswer:
        """Return the answer to what is not a request."""
        ...
