"""No secret is reported: not in logs, metrics, documents, refusals, settings, nor to other
processes.

A server in a process of its own gets a token, a password and a web token, right ones and wrong
ones. Then everything that it has written or answered is searched.
"""

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest

from tests.api.rest import TOPIC
from tests.security.web_keys import ALL, EC
from tests.servers.server_process import COMMAND, ROOT, ServerProcess, environment
from tests.waiting import wait_until
from tms.core.runtime.clock import SystemClock
from tms.security.credentials import Credential, Scheme
from tms.security.passwords import hash_password, names_of
from tms.security.sessions import Session
from tms.security.tokens import new_token

pytestmark = pytest.mark.slow

BASIC_SETTINGS = 3
PASSWORD = "canary-password"
WRONG_PASSWORD = "canary-wrong"


def web_token(**claims: Any) -> str:
    now = SystemClock().now_ms() // 1000
    told = {"iss": "i", "aud": "a", "sub": "jane", "nbf": now - 5, "exp": now + 600, **claims}
    return jwt.encode(told, EC, algorithm="ES256", headers={"kid": "ES256"})


class Told:
    """The server, and the secrets that it was given."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        root, kept = new_token("root")
        wrong = f"{root[:-5]}AAAAA"
        self.root = root
        self.web = web_token()
        wrong_web = web_token(aud="other")
        self.bearers = [root, wrong, "tms_canary", self.web, wrong_web, f"{self.web}x"]
        self.basics = [f"bob:{PASSWORD}", f"bob:{WRONG_PASSWORD}", f"canary-nobody:{PASSWORD}"]
        (folder / "passwords").write_text(f"bob:{hash_password(PASSWORD)}\n")
        (folder / "keys").write_bytes(ALL)
        self.settings = {
            "auth": "required",
            "superusers": "root",
            "log_level": "debug",
            "auth_tokens": f"{kept.id}:{kept.sha256.hex()}:root",
            "auth_passwords": str(folder / "passwords"),
            "auth_jwks": str(folder / "keys"),
            "auth_issuer": "i",
            "auth_audience": "a",
            "audit_file": str(folder / "audit"),
            "audit_topic": True,
        }
        lines = [f"{name} = {json.dumps(value)}" for name, value in self.settings.items()]
        self.config = folder / "tms.toml"
        self.config.write_text(
            "\n".join([*lines[:BASIC_SETTINGS], "[advanced]", *lines[BASIC_SETTINGS:]])
        )

    @property
    def secrets(self) -> list[str]:
        """The texts that must appear nowhere: the secrets whole, in part, and as they were sent."""
        basics = [base64.b64encode(each.encode()).decode() for each in self.basics]
        parts = [each.split("_", 2)[-1] for each in self.bearers if each.startswith("tms_")]
        signatures = [each.rpartition(".")[2] for each in self.bearers if "." in each]
        return [*self.bearers, *basics, *parts, *signatures, PASSWORD, WRONG_PASSWORD]

    @property
    def headers(self) -> list[str]:
        basics = [base64.b64encode(each.encode()).decode() for each in self.basics]
        return [*(f"Bearer {each}" for each in self.bearers), *(f"Basic {each}" for each in basics)]

    def check(self, what: str, text: str) -> None:
        for secret in self.secrets:
            assert secret not in text, f"{what} has a secret"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Told, ServerProcess]]:
    made = Told(tmp_path_factory.mktemp("secrets"))
    store = f"leveldb:{made.folder / 'store'}"
    with ServerProcess(store, "--config", str(made.config)) as server:
        assert server.url
        yield made, server


def ask_all(told: Told, url: str) -> Iterator[httpx.Response]:
    """Send many requests with each of the credentials, and yield the answers."""
    with httpx.Client(base_url=url, trust_env=False, verify=False) as http:
        for header in told.headers:
            headers = {"authorization": header}
            for path in ("/openapi.json", "/metrics", "/health", "/nowhere", "/v1/transactions"):
                yield http.get(path, headers=headers)
            yield http.get(f"{TOPIC}?authorization=no", headers=headers)
            yield http.put(TOPIC, headers=headers)
            yield http.post(f"{TOPIC}/publish", json={"messages": ["x"]}, headers=headers)
            yield http.post(f"{TOPIC}/publish", content=b"x", headers=headers)
            yield http.get("/v1/registry/subjects", headers=headers)
            yield http.get("/v1/registry/subjects/none/versions", headers=headers)
            yield http.get("/", headers={**headers, "host": "elsewhere.example"})
            yield http.get("/v1/cluster", headers={**headers, "TMS-Principal": header})


def test_nothing_that_a_server_reports_has_a_secret(told: tuple[Told, ServerProcess]) -> None:
    given, server = told
    statuses = set()
    for answer in ask_all(given, server.url):
        statuses.add(answer.status_code)
        given.check(str(answer.url), answer.text)
        given.check(f"headers of {answer.url}", str(answer.headers))
    assert {200, 400, 401, 403, 404, 421} <= statuses

    root = {"authorization": f"Bearer {given.root}"}
    lines = audited(server.url, root)
    given.check("the topic of the audit", lines)
    for action in ("authenticate", "manage", "publish", "operate"):
        assert f'"action":"{action}"' in lines, action
    given.check("the file of the audit", Path(given.folder / "audit").read_text())
    for path in ("/metrics", "/openapi.json", "/v1/debug/rows", "/v1/debug/problems"):
        given.check(path, httpx.get(f"{server.url}{path}", headers=root).text)
    given.check("what is kept", server.log)
    processes = subprocess.run(["ps", "-ewwo", "args"], check=True, capture_output=True, text=True)
    given.check("the list of processes", processes.stdout)


def audited(url: str, headers: dict[str, str]) -> str:
    """Return the lines of the audit's topic, once it has all kinds of them."""
    path = f"{url}/v1/namespaces/system/topics/_audit/poll"

    def lines() -> str:
        answer = httpx.post(path, json={"limit": 100_000}, headers=headers)
        text = answer.text if answer.is_success else ""
        found = "".join(each["payload"] for each in json.loads(text or "[]"))
        return found if all(word in found for word in ("operate", "jane", "publish")) else ""

    return wait_until(lines)


def test_the_settings_that_are_shown_have_no_secret(told: tuple[Told, ServerProcess]) -> None:
    given, _ = told
    for flags in ((), ("--json",), ("--toml",)):
        shown = subprocess.run(
            [*COMMAND, "config", "--config", str(given.config), *flags],
            cwd=ROOT,
            env={**environment(), "TMS_TOKEN": given.root},
            check=True,
            capture_output=True,
            text=True,
        )
        given.check("the settings", shown.stdout + shown.stderr)


def test_nothing_in_memory_shows_a_secret_when_it_is_shown() -> None:
    token, kept = new_token("ann")
    secret = token.split("_", 2)[2]
    hashed = hash_password(PASSWORD)
    known = names_of(f"ann:{hashed}".encode())
    shown = repr(
        (
            Credential(Scheme.TOKEN, token),
            replace(Credential(Scheme.BASIC, PASSWORD)),
            Session(known["ann"].identity, Scheme.TOKEN, token=kept),
            known,
        )
    )
    assert not re.search(f"{secret}|{PASSWORD}|{re.escape(hashed)}", shown)
