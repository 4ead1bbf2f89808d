"""Operations as an application: a table of them, found by method and path."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from api.http.context import Context, ErrorAnswer
from api.http.endpoint import Endpoint
from api.http.exchange import Exchange
from api.http.metrics import RestMetrics
from api.http.operation import Operation
from api.http.router import Route, RouteMatch, Router
from tms.core.errors import InvalidRequest


class Application:
    """Operations, found by method and path."""

    def __init__(
        self,
        context: Context,
        metrics: RestMetrics,
        operations: Iterable[Operation],
        *,
        prefixes: Iterable[str] = (),
    ) -> None:
        """Answer requests to `operations`, and refuse all others.

        They are at their paths, and below each of `prefixes` too.
        """
        self.context = context
        self._unmatched = metrics.of("unmatched")
        routes = [
            Route(
                operation.method,
                operation.path,
                Endpoint(operation.handler, context, metrics.of(operation.name), operation),
            )
            for operation in operations
        ]
        self._router: Router[Endpoint] = Router(routes)
        for prefix in prefixes:
            self._router.mount(prefix, routes)

    def find(self, method: str, path: str) -> RouteMatch[Endpoint]:
        """Return where a request leads; if nowhere, that refuses it.

        A slash at the end is passed over, as CDAP does.
        """
        try:
            return self._router.find(method, without_last_slash(path))
        except InvalidRequest as error:
            refuse = partial(_refuse, error.problem.code, error.detail)
            return RouteMatch(Endpoint(refuse, self.context, self._unmatched), {})

    def error(self, error: Exception) -> ErrorAnswer:
        """Return the answer to what is no request."""
        return self.context.error_form(error)


def without_last_slash(path: str) -> str:
    """Return a path as routes have it."""
    return path[:-1] if path[-1:] == "/" != path else path


async def _refuse(code: str, detail: Mapping[str, Any], _: Exchange) -> None:
    """Raise the error anew: one that is kept would keep the stack that it is raised in."""
    raise InvalidRequest(code, **detail)
