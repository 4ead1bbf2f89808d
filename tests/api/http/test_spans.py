"""Spans of requests, received by a collector that speaks OTLP over HTTP."""

import gzip
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest

from tests.api.rest import TOPIC
from tests.servers.server_process import ServerProcess

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector(HTTPServer):
    """Keeps the spans that it receives."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Any] = []


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        from opentelemetry.proto.collector.trace.v1 import (  # noqa: PLC0415  an extra
            trace_service_pb2,
        )

        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        read: Any = trace_service_pb2.ExportTraceServiceRequest.FromString
        assert isinstance(self.server, Collector)
        for resource in read(body).resource_spans:
            for scope in resource.scope_spans:
                self.server.spans += scope.spans
        self.send_response(httpx.codes.OK)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  its signature
        """Print nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        thread = Thread(target=collector.serve_forever)
        thread.start()
        yield collector
        collector.shutdown()
        thread.join()


def test_a_request_is_a_span_of_the_callers_trace(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = f"http://127.0.0.1:{collector.server_address[1]}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", where)
    with ServerProcess("memory:", "--otel") as server, httpx.Client(base_url=server.url) as http:
        http.put(TOPIC)
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "mine"}
        http.post(f"{TOPIC}/publish", json={"messages": ["a"]}, headers=headers)
        http.get("/health")
        assert server.stop() == 0

    created, published = collector.spans
    assert (created.name, published.name) == ("createTopic", "publish")
    assert published.trace_id.hex() == TRACE
    assert published.parent_span_id.hex() == PARENT
    assert published.start_time_unix_nano < published.end_time_unix_nano
    told = {each.key: each.value for each in published.attributes}
    assert told["http.response.status_code"].int_value == httpx.codes.OK
    assert told["tms.request_id"].string_value == "mine"
    assert (told["tms.namespace"].string_value, told["tms.topic"].string_value) == ("ns", "t")


def test_a_collector_that_is_away_hinders_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with ServerProcess("memory:", "--otel") as server:
        assert httpx.put(f"{server.url}{TOPIC}").status_code == httpx.codes.OK
        assert server.stop() == 0


def test_without_the_extra_a_server_says_how_to_get_it() -> None:
    with ServerProcess("memory:", "--otel", without=("opentelemetry",)) as server:
        assert server.wait() == 1
        assert "The setting otel needs OpenTelemetry (opentelemetry" in server.log
        assert "Traceback" not in server.log
