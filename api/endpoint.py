"""One operation as an ASGI application: its handler, its errors, its metrics."""

from time import perf_counter

from starlette.types import Receive, Scope, Send

from api.errors import answer_error
from api.exchange import CLIENT_GONE, ClientGone, Context, Exchange, Handler
from api.metrics import OperationMetrics


class Endpoint:
    """Answers each request by its handler, or with the error that the handler raises."""

    def __init__(self, handler: Handler, context: Context, metrics: OperationMetrics) -> None:
        self._handler = handler
        self.context = context
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self.serve(Exchange(self.context, scope, receive, send, dict(scope["headers"])))

    async def serve(self, exchange: Exchange) -> None:
        """Answer one request."""
        started = perf_counter()
        try:
            await self._handler(exchange)
        except ClientGone:
            exchange.status = CLIENT_GONE
        except Exception as error:
            if exchange.status:
                raise
            await answer_error(exchange, error)
        self._metrics.count(exchange.status, exchange.bytes_in, exchange.bytes_out)
        if not exchange.waited:
            self._metrics.seconds.observe(perf_counter() - started)
