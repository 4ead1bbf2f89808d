"""docs/metrics.md lists all metrics, and a server exports no metrics of unused parts."""

import re
from typing import Any

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from dev.metrics_page import from_code, page, parsed
from tests.docs.markdown import ROOT
from tests.servers.server_process import ServerProcess

SERIES_MAX = 300
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


@pytest.fixture
def server() -> ServerProcess:
    return ServerProcess("memory:")


def test_the_page_is_what_the_program_prints() -> None:
    told = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")

    assert told == page(), "python -m dev.metrics_page > docs/metrics.md"


def test_an_idle_server_has_few_series_and_every_text_is_a_sentence(server: ServerProcess) -> None:
    with server, httpx.Client(base_url=server.url) as client:
        text = client.get("/metrics").text
        idle = [line for line in text.splitlines() if not line.startswith("#")]
        assert len(idle) <= SERIES_MAX
        assert "tms_http_requests_total{" not in text
        again = client.get("/metrics").text
        assert 'tms_http_requests_total{operation="metrics",status="200"} 1.0' in again

    for name, each in (from_code() | parsed(text)).items():
        if name.startswith("tms_"):
            assert re.fullmatch(r"[A-Z0-9][^{}]*\.", each.text), name


def test_metrics_are_open_metrics_if_accept_names_it(server: ServerProcess) -> None:
    with server, httpx.Client(base_url=server.url) as client:
        answer = client.get("/metrics", headers={"Accept": OPEN_METRICS})

    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    read: Any = text_string_to_metric_families
    families = {each.name for each in read(answer.text)}
    assert "tms_published_messages" in families
