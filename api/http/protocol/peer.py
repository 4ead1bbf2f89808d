"""The other end of a connection, as far as the connection itself shows it.

Looked at once, when the connection is made; requests on it only read that.
"""

import asyncio
from dataclasses import dataclass

from tms.security.certificates import principal_of_certificate


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a connection."""

    address: str
    """Its IP address; empty if the transport does not know it."""
    certificate_principal: str | None
    """Whom its certificate names, which TLS has verified; None if it showed none that names one."""
    scheme: str = "http"
    """How its URL begins."""


def peer_of(transport: asyncio.BaseTransport) -> Peer:
    """Return the other end of a connection that is made."""
    name = transport.get_extra_info("peername")
    address = str(name[0]) if isinstance(name, tuple) and name else ""
    certificate = transport.get_extra_info("peercert")
    principal = principal_of_certificate(certificate) if certificate else None
    scheme = "http" if transport.get_extra_info("ssl_object") is None else "https"
    return Peer(address, principal, scheme)
