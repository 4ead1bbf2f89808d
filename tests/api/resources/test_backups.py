"""Backups over REST: on a server with a backup folder, on one without, and of another store."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from api.app import create_app
from tests.api.rest import TOPIC, Rest, refusal, serving
from tests.cli.conftest import run_command
from tests.waiting import until
from tms.core.limits import Limits
from tms.core.runtime.clock import SystemClock
from tms.core.values.backups import Work
from tms.security.grants import GrantOptions, Grants
from tms.security.tokens import new_token
from tms.server.backups import open_backups
from tms.server.node import open_services
from tms.settings import Settings

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def served(folder: Path, **more: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the store in `folder`."""
    store = f"leveldb:{folder}/store"
    settings, registry = Settings.model_construct(store=store, **more), CollectorRegistry()
    services = await open_services(store, settings=settings, registry=registry)
    backups = await open_backups(settings, services, registry, SystemClock())
    app = create_app(services, Limits(), registry=registry, backups=backups)
    try:
        async with serving(app, Limits()) as (url, _), httpx.AsyncClient(base_url=url) as http:
            yield http
    finally:
        await backups.close()
        await services.close()


async def test_a_backup_has_messages_namespaces_rules_and_no_secret(tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    async with served(tmp_path, backup_folder=str(folder)) as http:
        await http.put(TOPIC)
        await http.put("/v1/namespaces/shop", json={"ttl_s_max": 60})
        await http.post(f"{TOPIC}/publish", json={"messages": ["a"]})
        started = await http.put("/v1/backups/first?wait=0")
        assert (started.status_code, started.json()["stage"]) == (200, "running")
        assert refusal(await http.put("/v1/backups/second")) == (409, "backup_running")

        async def is_done() -> bool:
            return bool((await http.get("/v1/backups")).json()["last"]["stage"] == "done")

        await until(is_done)
        verified = (await http.post("/v1/backups/first/verify?wait=60")).json()
        assert (verified["stage"], verified["rows"] > 3) == ("done", True)
        [backup] = (await http.get("/v1/backups")).json()["backups"]
        assert (backup["name"], backup["metadata"]) == ("first", "in the store")
        assert "tms_backup_created_seconds 1" in (await http.get("/metrics")).text
        assert refusal(await http.put("/v1/backups/first")) == (409, "backup_exists")
        assert refusal(await http.put("/v1/backups/.first")) == (400, "invalid_backup_name")
        assert refusal(await http.put("/v1/backups/a%2fb")) == (400, "invalid_backup_name")
        assert refusal(await http.post("/v1/backups/b/verify")) == (404, "backup_not_found")
        assert refusal(await http.delete("/v1/backups/b")) == (404, "backup_not_found")
        store = str(tmp_path / "restored")
        assert run_command("restore", str(folder / "first"), store)[0] == 0
        url = f"leveldb:{store}"
        assert "ttl_s_max" in run_command("namespace", "list", "--url", url)[1]
        polled = run_command("poll", "t", "--namespace", "ns", "--url", url, "--json")[1]
        assert json.loads(polled)["payload"] == "a"

        (folder / "first/leveldb/CURRENT").write_bytes(b"MANIFEST-000009\n")
        verified = (await http.post("/v1/backups/first/verify?wait=60")).json()
        assert verified["stage"] == "failed"
        assert "CURRENT" in verified["failure"]
        assert (await http.delete("/v1/backups/first")).status_code == 200
        assert list(folder.iterdir()) == []


async def test_tokens_are_in_a_backup_as_hashes_alone(tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    store = f"leveldb:{tmp_path}/store"
    settings = Settings.model_construct(store=store, backup_folder=str(folder))
    services = await open_services(store, settings=settings)
    grants = Grants(GrantOptions(), SystemClock())
    assert services.namespaces.metadata is not None
    await grants.open(services.namespaces.metadata)
    token, kept = new_token("ann")
    await grants.add_token(kept)
    backups = await open_backups(settings, services, CollectorRegistry(), SystemClock())
    await backups.start(Work.BACKUP, "b", 60)
    await backups.close()
    await grants.close()
    await services.close()
    saved = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert kept.id.encode() in saved
    _, _, secret = token.split("_", 2)  # the secret may contain underscores
    assert secret.encode() not in saved


async def test_a_backup_says_where_the_metadata_is(tmp_path: Path) -> None:
    elsewhere = f"leveldb:{tmp_path}/metadata"
    more: dict[str, Any] = {"backup_folder": str(tmp_path / "backups"), "metadata": elsewhere}
    async with served(tmp_path, **more) as http:
        await http.put("/v1/backups/b?wait=60")
        [backup] = (await http.get("/v1/backups")).json()["backups"]
        assert backup["metadata"] == elsewhere


async def test_a_server_without_a_folder_for_backups_says_so(tmp_path: Path) -> None:
    async with served(tmp_path) as http:
        assert refusal(await http.get("/v1/backups")) == (409, "backup_off")
        assert refusal(await http.put("/v1/backups/b")) == (409, "backup_off")


async def test_a_store_elsewhere_is_not_backed_up(rest: Rest) -> None:
    assert refusal(await rest.http.put("/v1/backups/b")) == (409, "backup_unsupported")
