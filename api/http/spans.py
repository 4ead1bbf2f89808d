"""Spans of requests, sent by OpenTelemetry's exporter (OTLP over HTTP); needs the extra `otel`.

A span is made when its request has been answered, with the times that it had. Its parent is in the
request's `traceparent`. The exporter's variables (`OTEL_EXPORTER_OTLP_ENDPOINT`,
`OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`, …) configure it. Spans wait in a bounded queue for its
thread; if the collector is away, they are dropped, and requests do not notice.
"""

from collections.abc import Mapping

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from api.http.exchange import Exchange
from tms import __version__
from tms.core.text.credentials import shortened

_PATH_CHARS_MAX = 500
_NS_PER_MS, _NS_PER_S = 1_000_000, 1_000_000_000
_PROBES = frozenset(("health", "ready", "metrics", "ping"))
"""Operations without spans: they are called all the time, and say nothing about a program."""
_OUR_FAULT = 500
_CARRIED = ("traceparent", "tracestate")


class Spans:
    """Sends a span for each request, except for probes."""

    def __init__(self) -> None:
        """Start the exporter."""
        resource = Resource.create({"service.name": "tms", "service.version": __version__})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("tms", __version__)
        self._propagator = TraceContextTextMapPropagator()

    def add(self, exchange: Exchange, seconds: float) -> None:
        """Add the span of a request that has just been answered."""
        operation = exchange.operation
        name = "unmatched" if operation is None else operation.name
        if name in _PROBES:
            return
        ended_ns = exchange.context.clock.now_ms() * _NS_PER_MS
        span = self._tracer.start_span(
            name,
            self._propagator.extract(_carried(exchange.headers)),
            SpanKind.SERVER,
            {
                "http.request.method": exchange.method,
                "url.path": shortened(exchange.path, _PATH_CHARS_MAX),
                "http.response.status_code": exchange.status,
                "client.address": exchange.address,
                "tms.request_id": exchange.request_id,
                **{f"tms.{key}": exchange.names[key] for key in sorted(exchange.names)},
            },
            start_time=ended_ns - round(seconds * _NS_PER_S),
        )
        if exchange.status >= _OUR_FAULT:
            span.set_status(Status(StatusCode.ERROR))
        span.end(ended_ns)

    def close(self) -> None:
        """Send the spans that wait, within the exporter's time."""
        self._provider.shutdown()


def _carried(headers: Mapping[bytes, bytes]) -> dict[str, str]:
    """Return the headers that carry a trace, as text."""
    values = {name: headers.get(name.encode()) for name in _CARRIED}
    return {name: value.decode("latin-1") for name, value in values.items() if value is not None}
