"""A registry's interface served on 127.0.0.1, and a client of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from api.http.metrics import RestMetrics
from api.registry.application import create_registry_app
from tests.api.rest import serving
from tests.registry.registries import Registries, opened
from tms.core.limits import Limits, SchemaLimits
from tms.registry.log.service import Registry
from tms.wire.registry_bodies import CONTENT_TYPE

LIMITS = SchemaLimits(schema_bytes_max=20_000, references_depth_max=3, references_max=5)


class Api:
    """Calls of the interface. Each answers status and body."""

    def __init__(self, http: httpx.AsyncClient, registries: Registries, registry: Registry) -> None:
        self.http = http
        self.registries = registries
        self.registry = registry
        """The registry that is served."""

    async def call(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, Any]:
        named = {"content-type": CONTENT_TYPE} if body is not None else {}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, bytes | str | None):
            answer = await self.http.request(method, path, content=body, headers=named)
        else:
            answer = await self.http.request(method, path, json=body, headers=named)
        return answer.status_code, answer.json()

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        return await self.call("GET", path, **headers)

    async def register(self, subject: str, text: str, query: str = "", **more: Any) -> Any:
        """Register, and return the answer, or the code of a refusal."""
        path = f"/subjects/{subject}/versions{query}"
        status, told = await self.call("POST", path, {"schema": text, **more})
        return told if status == 200 else refused(status, told)


def refused(status: int, told: Any) -> int:
    """Return the code of a refusal after checking its form and its status."""
    assert set(told) == {"error_code", "message"}, told
    code = told["error_code"]
    assert status == (code if code < 1000 else code // 100)
    assert told["message"]
    assert isinstance(code, int)
    return code


@asynccontextmanager
async def served() -> AsyncIterator[Api]:
    """Serve a registry on a store in memory."""
    async with opened() as registries:
        registry = registries.make(limits=LIMITS).registry
        app = create_registry_app(registry, Limits(), RestMetrics())
        async with (
            serving(app, Limits()) as (url, _),
            httpx.AsyncClient(base_url=url, trust_env=False, verify=False) as http,
        ):
            yield Api(http, registries, registry)
