"""An application: a table of operations, built once, in which each request is looked up."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from api.http.context import Context
from api.http.endpoint import Endpoint
from api.http.errors import ErrorAnswer
from api.http.exchange import NO_CONTENT, Exchange
from api.http.metrics import RestMetrics
from api.http.operation import Operation
from api.http.router import Route, Router
from tms.core.errors import InvalidRequest

_ALLOWED_S = b"600"


class Application:
    """Operations, found by method and path."""

    def __init__(
        self,
        context: Context,
        metrics: RestMetrics,
        operations: Iterable[Operation],
        *,
        prefix: str = "",
        endpoint: Callable[..., Endpoint] = Endpoint,
    ) -> None:
        """Answer requests to `operations`, and refuse all others.

        They are available at their paths and, except for the one at `/`, below `prefix` too.
        `endpoint` creates the endpoint of each.
        """
        self.context = context
        self.metrics = metrics
        counted = metrics.of("unmatched")

        def unmatched(code: str, detail: Mapping[str, Any]) -> Endpoint:
            return endpoint(partial(_refuse, code, detail), context, counted)

        own = [
            Route(
                operation.method,
                operation.path,
                endpoint(operation.handler, context, metrics.of(operation.name), operation),
            )
            for operation in operations
        ]
        self.routes = Router(own, unmatched)
        if prefix:
            self.routes.mount(prefix, [each for each in own if each.template != "/"])

    def error(self, error: Exception) -> ErrorAnswer:
        """Return the answer to bytes that are not a valid request."""
        return self.context.error_form(error)


async def _refuse(code: str, detail: Mapping[str, Any], exchange: Exchange) -> None:
    """Raise a new error: one that is kept would keep the stack in which it is raised.

    But a browser that asks whether a page of an allowed origin may send a request gets an answer.
    """
    asked = exchange.headers.get(b"access-control-request-method")
    if exchange.page_lines and exchange.method == "OPTIONS" and asked and "allow" in detail:
        fields = exchange.headers.get(b"access-control-request-headers", b"")
        await exchange.answer(
            NO_CONTENT,
            headers=[
                (b"access-control-allow-methods", detail["allow"].encode()),
                (b"access-control-allow-headers", fields),
                (b"access-control-max-age", _ALLOWED_S),
            ],
        )
        return
    raise InvalidRequest(code, **detail)
