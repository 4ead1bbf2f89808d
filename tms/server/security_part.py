"""The access control of a server: who callers are and what they may do. Opened with the service.

Its sources are opened with it: rules and tokens in a metadata store, the keys of token issuers, and
the keys with which servers of a cluster authenticate each other.
"""

import contextlib
import importlib.util
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, NamedTuple

from tms.core.errors import TopicExists, TopicNotFound
from tms.core.runtime.clock import Clock
from tms.core.runtime.extras import install_command
from tms.core.runtime.tls import TlsFiles
from tms.core.values.caller import AUDIT, AUDIT_TOPIC, Caller
from tms.metadata.interface import MetadataStore
from tms.outgoing.answer import Answer
from tms.registry.log.schema_log import WayToLog
from tms.security.audit_destinations import open_audit
from tms.security.forward_keys import ForwardKeys
from tms.security.forwards import BOOT_HEADER, HEADER, Opener, Sealer, new_boot, server_identity
from tms.security.grants import GrantOptions, Grants
from tms.security.quotas import Quotas, SharedBounds
from tms.security.rules import Identity
from tms.security.sessions import Sessions, VerifyPassword, VerifyWebToken
from tms.security.tokens import entry_of_setting
from tms.server.stores import importing
from tms.settings import Settings

with importing("api"):
    from api.http.door.access_control import AccessControl
    from api.http.listener.server import connections_max
    from api.http.listener.tls import ServerTls

_BOOT = BOOT_HEADER.lower().encode()
_PUBLISHES = Caller(part=AUDIT)


class SecurityFiles(NamedTuple):
    """The access control in the settings and their files; nothing is open yet."""

    settings: Settings
    clock: Clock
    options: GrantOptions
    web_keys: Any
    """The keys of token issuers (`WebKeys`); None if signed tokens are not accepted."""
    web_tokens: VerifyWebToken | None
    passwords: VerifyPassword | None

    async def open(
        self, stack: AsyncExitStack, store: MetadataStore | None, instance_id: int | None = None
    ) -> "Security":
        """Open the access control, with a metadata store if there is one, until the stack ends.

        With an `instance_id` other servers of a cluster have the same store. Waits for an
        unreachable store. Raises `ValueUnreadable`, and `OSError` for the audit's file.
        """
        settings, clock, limits = self.settings, self.clock, self.settings.limits()
        grants = Grants(self.options, clock)
        stack.push_async_callback(grants.close)
        audited = WayToLog()
        publish = partial(_publish, audited) if settings.audit_topic else None
        audit = open_audit(settings.audit_file, clock, publish)
        stack.push_async_callback(audit.close)
        if self.web_keys is not None:
            stack.push_async_callback(self.web_keys.close)
            await self.web_keys.open()
        await grants.open(store)
        keys = None
        if store is not None and instance_id is not None:
            keys = ForwardKeys(store, clock)
            stack.push_async_callback(keys.close)
            await keys.open()
        sessions = Sessions(grants, clock, web_tokens=self.web_tokens, passwords=self.passwords)
        bounds = SharedBounds(connections_max(limits.connections_max), limits.queue_bytes_max)
        quotas = Quotas(settings.principal_limits(), clock, bounds)
        boot = new_boot()

        def access(own_address: str | None) -> AccessControl:
            opener = None
            if keys is not None and own_address:
                opener = Opener(keys, own_address, clock, boot)
            return AccessControl(
                sessions,
                grants,
                clock,
                is_required=settings.auth == "required",
                are_docs_open=settings.auth_open_docs,
                quotas=quotas,
                audit=audit,
                opener=opener,
            )

        sealer = None if keys is None else Sealer(keys, str(instance_id), clock)
        return Security(
            access(settings.advertise), access(settings.registry_url), boot, sealer, audited
        )


class Security(NamedTuple):
    """Authenticates callers, and decides what they may do."""

    access: AccessControl
    """The access control of the service's operations."""
    registry_access: AccessControl
    """The access control of the registry's operations."""
    boot: str
    """The process of this server for which seals must be made."""
    sealer: Sealer | None
    """Seals principals for other servers; None if they share no keys."""
    audited: WayToLog
    """Access to the service that has the audit's topic."""


async def _publish(way: WayToLog, lines: list[bytes]) -> None:
    messaging = way.messaging
    try:
        await messaging.publish(AUDIT_TOPIC, lines, caller=_PUBLISHES)
    except TopicNotFound:
        with contextlib.suppress(TopicExists):
            await messaging.create_topic(AUDIT_TOPIC, {}, caller=_PUBLISHES)
        await messaging.publish(AUDIT_TOPIC, lines, caller=_PUBLISHES)


class Signing:
    """Adds the principal to each request to a server: `who`, or this server itself.

    `boot` is the process that the requests are for, empty if unknown. Implements
    `tms.client.remote.access.RequestSigning`.
    """

    def __init__(
        self,
        sealer: Sealer,
        url: str,
        boot: str,
        who: Callable[[], Identity | None] | None = None,
    ) -> None:
        server = server_identity(sealer.instance_id)
        self._who = who or (lambda: server)
        self._sealer = sealer
        self._url = url
        self._boot = boot

    def line(self, method: str, target: bytes, body: bytes) -> bytes:
        """Return the header line with the principal."""
        path, _, query = target.partition(b"?")
        seal = self._sealer.seal(
            self._who(),
            method,
            path.decode("latin-1"),
            query,
            target=self._url,
            body=body,
            boot=self._boot,
        )
        return b"%s: %s\r\n" % (HEADER.encode(), seal)

    def is_for_another(self, answer: Answer) -> bool:
        """Whether another process answers than the one meant: that has done nothing."""
        refused_for = answer.value(_BOOT)
        if refused_for is None or refused_for == self._boot.encode():
            return False
        self._boot = refused_for.decode("latin-1")
        return True


def read_security(settings: Settings, clock: Clock) -> SecurityFiles | None:
    """Return the access control in the settings; None if everybody may do everything.

    Raises `ValueError` and `OSError` for files that cannot be used.
    """
    if settings.auth == "off":
        return None
    tokens = [
        auth_token.strip() for auth_token in settings.auth_tokens.split(",") if auth_token.strip()
    ]
    options = GrantOptions(
        superusers=settings.superuser_names,
        tokens=tuple(map(entry_of_setting, tokens)),
        stale_s_max=settings.auth_stale_s_max,
    )
    web_keys = web_tokens = passwords = None
    if settings.auth_jwks:
        _check_extra("jwt")
        from tms.security.json_web_keys import WebKeys  # noqa: PLC0415  an extra
        from tms.security.json_web_tokens import WebTokenVerifier  # noqa: PLC0415

        web_keys = WebKeys(settings.auth_jwks, clock, settings.tls_ca)
        web_tokens = WebTokenVerifier(
            web_keys,
            settings.auth_issuer,
            settings.auth_audience,
            settings.auth_principal_claim,
            settings.auth_groups_claim,
            clock=clock,
        ).verify
    if settings.auth_passwords:
        _check_extra("argon2")
        from tms.security.passwords import PasswordVerifier  # noqa: PLC0415  an extra

        passwords = PasswordVerifier(settings.auth_passwords, clock).verify
    return SecurityFiles(settings, clock, options, web_keys, web_tokens, passwords)


def _check_extra(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise ValueError(f"this needs more: {install_command('auth')}")


class ServedTls(NamedTuple):
    """The TLS contexts of a server."""

    own: ServerTls | None
    """For its clients; None without a certificate."""
    to_others: ssl.SSLContext | None
    """For other servers; None if it calls none."""


def read_tls(settings: Settings) -> ServedTls:
    """Read certificates and keys. Raises `ValueError`, which names the setting."""
    to_others = settings.tls_to_others() if settings.reaches_others else None
    if not settings.tls_cert:
        return ServedTls(None, to_others)
    files = TlsFiles(settings.tls_cert, settings.tls_key, settings.tls_client_ca)
    return ServedTls(ServerTls(files, to_others), to_others)
