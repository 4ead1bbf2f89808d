"""The part of a server that knows who asks and who may do what: opened beside the service.

What it has to ask elsewhere is opened with it: rules and tokens in a metadata store, keys of who
signs tokens, and the keys by which the servers of a cluster believe each other.
"""

import contextlib
import importlib.util
from collections.abc import Generator
from functools import partial
from typing import Any

import httpx

from tms.core.caller import AUDIT, AUDIT_TOPIC, Caller
from tms.core.clock import Clock
from tms.core.errors import NoLeader, TopicExists, TopicNotFound
from tms.core.extras import install_command
from tms.core.messaging import Messaging
from tms.metadata.interface import MetadataStore
from tms.security.audit import Audit
from tms.security.audit_destinations import open_audit
from tms.security.forward_keys import ForwardKeys
from tms.security.forwards import BOOT_HEADER, HEADER, Opener, Sealer, new_boot, server_identity
from tms.security.grants import GrantOptions, Grants
from tms.security.quotas import Quotas, SharedBounds
from tms.security.sessions import Sessions, VerifyPassword, VerifyWebToken
from tms.security.tokens import kept_of_setting
from tms.server.stores import importing
from tms.settings import Settings

with importing("api"):
    from api.http.access_control import AccessControl
    from api.http.server import connections_max

_PUBLISHES = Caller(part=AUDIT)


class SecurityPart:
    """Authenticates callers, and decides what they may do."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Read what files say. Raises `ValueError` and `OSError` for those that cannot be used."""
        self._settings = settings
        self._clock = clock
        tokens = [each.strip() for each in settings.auth_tokens.split(",") if each.strip()]
        options = GrantOptions(
            superusers=settings.superuser_names,
            tokens=tuple(map(kept_of_setting, tokens)),
            stale_s_max=settings.auth_stale_s_max,
        )
        self.grants = Grants(options, self._clock)
        self._closed_with: list[Any] = [self.grants]
        self._web_keys: Any = None
        sessions = Sessions(
            self.grants,
            self._clock,
            web_tokens=self._web_tokens(),
            passwords=self._passwords(),
        )
        limits = settings.limits()
        bounds = SharedBounds(connections_max(limits.connections_max), limits.queue_bytes_max)
        quotas = Quotas(settings.principal_limits(), self._clock, bounds)
        access = partial(
            AccessControl,
            sessions,
            self.grants,
            self._clock,
            is_required=settings.auth == "required",
            are_docs_open=settings.auth_open_docs,
            quotas=quotas,
        )
        self.access, self.registry_access = access(), access()
        """The access control of the service's operations, and of the registry's."""
        self.boot = new_boot()
        """Which process of this server seals have to be for."""
        self.sealer: Sealer | None = None
        """Seals principals for other servers; None if they share no keys."""
        self._audit: Audit | None = None
        self._messaging: Messaging | None = None

    def _web_tokens(self) -> VerifyWebToken | None:
        settings = self._settings
        if not settings.auth_jwks:
            return None
        _check_extra("jwt")
        from tms.security.json_web_keys import WebKeys  # noqa: PLC0415  an extra
        from tms.security.json_web_tokens import WebTokenVerifier  # noqa: PLC0415

        self._web_keys = WebKeys(settings.auth_jwks, self._clock, settings.tls_ca)
        verifier = WebTokenVerifier(
            self._web_keys,
            settings.auth_issuer,
            settings.auth_audience,
            settings.auth_principal_claim,
            settings.auth_groups_claim,
            clock=self._clock,
        )
        return verifier.verify

    def _passwords(self) -> VerifyPassword | None:
        if not self._settings.auth_passwords:
            return None
        _check_extra("argon2")
        from tms.security.passwords import PasswordVerifier  # noqa: PLC0415  an extra

        return PasswordVerifier(self._settings.auth_passwords, self._clock).verify

    async def open(self, store: MetadataStore | None, instance_id: int | None = None) -> None:
        """Know what is in force, by a metadata store if there is one; it stays open.

        With an `instance_id` other servers of a cluster have the same store. Raises
        `MetadataUnavailable`, and `OSError` for the audit's file.
        """
        settings = self._settings
        publish = self._publish if settings.audit_topic else None
        self._audit = open_audit(settings.audit_file, self._clock, publish)
        self.access.trail.audit = self.registry_access.trail.audit = self._audit
        self._closed_with.append(self._audit)
        if self._web_keys is not None:
            self._closed_with.append(self._web_keys)
            await self._web_keys.open()
        await self.grants.open(store)
        if store is None or instance_id is None:
            return
        keys = ForwardKeys(store, self._clock)
        self._closed_with.append(keys)
        await keys.open()
        self.sealer = Sealer(keys, str(instance_id), self._clock)
        if settings.advertise:
            self.access.open_forwards(Opener(keys, settings.advertise, self._clock, self.boot))
        if settings.registry_url:
            opener = Opener(keys, settings.registry_url, self._clock, self.boot)
            self.registry_access.open_forwards(opener)

    def signing(self, url: str, boot: str = "") -> httpx.Auth | None:
        """Return what signs this server's own requests to another; None if nothing can.

        `boot`: which process of it they are for, empty if that is not known.
        """
        return None if self.sealer is None else _Signing(self.sealer, url, boot)

    def publish_by(self, messaging: Messaging | None) -> None:
        """Publish the audit by this service; None: wait until there is one."""
        self._messaging = messaging

    async def _publish(self, lines: list[bytes]) -> None:
        messaging = self._messaging
        if messaging is None:
            raise NoLeader
        try:
            await messaging.publish(AUDIT_TOPIC, lines, caller=_PUBLISHES)
        except TopicNotFound:
            with contextlib.suppress(TopicExists):
                await messaging.create_topic(AUDIT_TOPIC, {}, caller=_PUBLISHES)
            await messaging.publish(AUDIT_TOPIC, lines, caller=_PUBLISHES)

    async def close(self) -> None:
        """Follow nothing any more, and have the audit written."""
        for each in reversed(self._closed_with):
            await each.close()


class _Signing(httpx.Auth):
    """Says in each request that this server itself makes it."""

    requires_request_body = True

    def __init__(self, sealer: Sealer, url: str, boot: str) -> None:
        self._sealer = sealer
        self._url = url
        self._boot = boot

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        boot = self._boot
        answer = yield self._sealed(request)
        told = answer.headers.get(BOOT_HEADER, boot)
        if told != boot:  # it is another process now: nothing was done
            self._boot = told
            yield self._sealed(request)

    def _sealed(self, request: httpx.Request) -> httpx.Request:
        path, _, query = request.url.raw_path.partition(b"?")
        request.headers[HEADER] = self._sealer.seal(
            server_identity(self._sealer.instance_id),
            request.method,
            path.decode("latin-1"),
            query,
            target=self._url,
            body=request.content,
            boot=self._boot,
        ).decode("ascii")
        return request


def open_security(settings: Settings, clock: Clock) -> SecurityPart | None:
    """Return what settings ask for; None if everybody may do everything. Raises `ValueError`."""
    return None if settings.auth == "off" else SecurityPart(settings, clock)


def _check_extra(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise ValueError(f"this needs more: {install_command('auth')}")
