"""A registry that requires every caller to authenticate."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from api.http.metrics import RestMetrics
from api.registry.application import create_registry_app
from tests.api.registry.live import LIMITS as SCHEMA_LIMITS
from tests.api.rest import NOW_MS
from tests.api.security.secured import LIMITS, ROOT, Server, opened_server, rule_of, serving_server
from tests.manual_clock import ManualClock
from tests.registry.registries import Registries, fixed, opened
from tms.registry.log.service import Registry
from tms.security.passwords import PasswordVerifier, hash_password
from tms.security.resources import Action
from tms.security.tokens import new_token


class Secured:
    """A registry that requires every caller to authenticate, and its callers."""

    def __init__(self, server: Server, registry: Registry, registries: Registries) -> None:
        self.server = server
        self.registry = registry
        self.registries = registries

    async def token(self, principal: str) -> str:
        token, kept = new_token(principal)
        await self.server.grants.add_token(kept)
        return token

    async def headers(self, principal: str) -> dict[str, str]:
        return {"authorization": f"Bearer {await self.token(principal)}"}

    async def allow(self, who: str, *actions: Action, name: str = "*") -> None:
        await self.server.grants.add_rule(rule_of(who, *actions, name=name))

    async def call(
        self, headers: dict[str, str], path: str, body: Any = None, method: str = ""
    ) -> tuple[int, Any]:
        method = method or ("GET" if body is None else "POST")
        answer = await self.server.http.request(method, path, json=body, headers=headers)
        told = answer.json()
        return (answer.status_code, told) if answer.is_success else (told["error_code"], told)


@asynccontextmanager
async def secured_registry(tmp_path: Path) -> AsyncIterator[Secured]:
    """Serve one with subjects a, b and ctx:c, whose schemas have the ids 1, 2 and (in .ctx) 1."""
    clock = ManualClock(NOW_MS)
    passwords = tmp_path / "passwords"
    passwords.write_text(f"ann:{hash_password('canary')}\n")
    verifier = PasswordVerifier(str(passwords), clock)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(verifier.close)
        server = await opened_server(stack, "registry", clock, passwords=verifier.verify)
        registries = await stack.enter_async_context(opened())
        registry = registries.make(limits=SCHEMA_LIMITS).registry
        app = create_registry_app(registry, LIMITS, RestMetrics(), access=server.access)
        await stack.enter_async_context(serving_server(server, app))
        made = Secured(server, registry, registries)
        root = await made.headers(ROOT)
        for subject, text in (("a", fixed(1)), ("b", fixed(2)), (":.ctx:c", fixed(3))):
            told = await made.call(root, f"/subjects/{subject}/versions", {"schema": text})
            assert told[0] == 200
        yield made
