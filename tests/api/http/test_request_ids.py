"""Ids of requests: in answers, errors, logs; and the access log, as text and as JSON."""

import json
import re

import httpx
import pytest

from tests.api.rest import TOPIC
from tests.servers.server_process import ServerProcess
from tests.waiting import wait_until

MADE = re.compile(r"[0-9a-f]{12}-[0-9a-f]+")


def test_an_id_is_taken_or_made_and_answered() -> None:
    with ServerProcess("memory:") as server, httpx.Client(base_url=server.url) as http:
        assert (
            http.get("/health", headers={"X-Request-Id": "mine"}).headers["x-request-id"] == "mine"
        )
        assert "x-request-id" not in http.get("/health").headers, "nobody needs one"

        for sent, is_taken in (("mine", True), ("a b", False), ("x" * 129, False)):
            refused = http.get(TOPIC, headers={"X-Request-Id": sent})
            told = refused.json()["error"]["request_id"]
            assert refused.headers["x-request-id"] == told
            assert (told == sent) == is_taken
            assert is_taken or MADE.fullmatch(told)

        streamed = http.get("/v1/status", headers={"X-Request-Id": "mine"})
        assert streamed.headers.get_list("x-request-id") == ["mine"]
        of_registry = http.get("/v1/registry/subjects/none/versions")
        assert set(of_registry.json()) == {"error_code", "message"}


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_access_log_has_each_request(form: str) -> None:
    flags = ("--access-log", "--log-format", form, "--log-level", "error")
    with ServerProcess("memory:", *flags) as server, httpx.Client(base_url=server.url) as http:
        made = http.get("/health?token=secret").headers["x-request-id"]
        http.get(f"{TOPIC}%0a/none", headers={"X-Request-Id": "mine"})
        wait_until(lambda: "mine" in server.log)
        log = server.log

    assert MADE.fullmatch(made)
    assert "secret" not in log
    if form == "text":
        assert re.search(
            rf"INFO tms.access: 127.0.0.1 None GET /health 200 0 \d+ \S+ ms {made}", log
        )
        return
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    told = {line["request_id"]: line for line in lines if line["logger"] == "tms.access"}
    assert told[made]["status"] == httpx.codes.OK
    assert told["mine"]["path"] == f"{TOPIC}%0a/none"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", told[made]["time"])


def test_there_is_no_access_log_unless_it_is_wanted() -> None:
    with ServerProcess("memory:") as server:
        httpx.get(f"{server.url}/health")
        assert server.stop() == 0
        assert "tms.access" not in server.log
