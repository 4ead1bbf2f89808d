"""Servers of one registry with access control: a follower names its caller to the master.

They are real processes on etcd, which has the rules; the log's server has access control too.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dev.processes import Servers, free_ports
from tests.api.security.secured import rule_of
from tests.metadata.servers import fresh_url
from tests.registry.masters import http, until
from tests.registry.registries import fixed
from tests.servers.server_process import ServerProcess
from tms.core.runtime.clock import SystemClock
from tms.security.grants import GrantOptions, Grants
from tms.security.resources import Action
from tms.security.tokens import KeptToken, new_token
from tms.server.stores import open_metadata

pytestmark = pytest.mark.slow


def setting_of(kept: KeptToken) -> str:
    return f"{kept.id}:{kept.sha256.hex()}:{kept.principal}"


class Secured:
    """Two servers of the registry, the first of which is master, and the store of rules."""

    def __init__(self, urls: list[str], metadata: str, processes: list[ServerProcess]) -> None:
        self.urls = urls
        self.metadata = metadata
        self.processes = processes

    def change(self, work: Any) -> Any:
        """Run work that needs a granted right, as another server would."""

        async def run() -> Any:
            store = await open_metadata(self.metadata)
            grants = Grants(GrantOptions(), SystemClock())
            try:
                await grants.open(store)
                return await work(grants)
            finally:
                await grants.close()
                await store.close()

        return asyncio.run(run())

    def token(self, principal: str) -> dict[str, str]:
        token, kept = new_token(principal)
        self.change(lambda grants: grants.add_token(kept))
        return {"authorization": f"Bearer {token}"}


@pytest.fixture
def secured(etcd: Servers, tmp_path: Path) -> Iterator[Secured]:
    metadata = fresh_url("etcd", etcd)
    token, kept = new_token("root")
    (tmp_path / "token").write_text(token)
    (tmp_path / "token").chmod(0o600)
    asks = ("--auth", "required", "--superusers", "root", "--auth-tokens", setting_of(kept))
    ports = free_ports(3)
    with ExitStack() as stack:
        store = ServerProcess(f"leveldb:{tmp_path / 'store'}", *asks, port=ports[0])
        processes = [stack.enter_context(store)]
        log = ("--registry-log", store.url, "--registry-token-file", str(tmp_path / "token"))
        flags = (*asks, *log, "--registry-mode", "master", "--metadata", metadata)
        root = {"authorization": f"Bearer {token}"}
        urls: list[str] = []
        for port in ports[1:]:
            processes.append(stack.enter_context(ServerProcess(None, *flags, port=port)))
            urls.append(f"{processes[-1].url}/v1/registry")

            def is_known() -> bool:
                status = http.get(f"{urls[-1]}/status", headers=root).json()
                return bool(status.get("master") == urls[0])

            until(is_known)
        yield Secured(urls, metadata, processes)


def test_a_follower_names_the_caller_to_the_master(secured: Secured) -> None:
    master, follower = secured.urls
    ann, eve = secured.token("ann"), secured.token("eve")
    rule = rule_of("ann", Action.WRITE, Action.READ, name="a")
    added = secured.change(lambda grants: grants.add_rule(rule))
    body = {"schema": fixed(1)}

    def register(url: str, headers: dict[str, str], subject: str) -> tuple[int, int | None]:
        answer = http.post(f"{url}/subjects/{subject}/versions", json=body, headers=headers)
        return answer.status_code, answer.json().get("error_code")

    until(lambda: register(follower, ann, "a")[0] == 200)
    assert register(master, ann, "a")[0] == 200
    assert register(follower, ann, "b") == (403, 40301)
    until(lambda: register(follower, eve, "a") == (403, 40301))
    assert register(follower, {}, "a") == (401, 401)
    for forged in ("root", "v1;who=root"):
        for url in secured.urls:
            assert register(url, {**ann, "TMS-Principal": forged}, "a") == (401, 401)
    told = http.get(f"{follower}/subjects", headers=ann)
    assert told.json() == ["a"]

    secured.change(lambda grants: grants.remove_rule(added.id))
    until(lambda: register(follower, ann, "a") == (403, 40301))
    secured.change(lambda grants: grants.remove_token(ann["authorization"].split("_")[1]))
    until(lambda: register(follower, ann, "a") == (401, 401))
    for process in secured.processes:
        for headers in (ann, eve):
            assert headers["authorization"].removeprefix("Bearer ") not in process.log
