"""The other end of a connection, as far as the connection itself shows it.

It is determined once, when the connection is made; requests only read it.
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
    """The principal that its verified certificate names; None if there is none."""
    scheme: str = "http"
    """The scheme of its URL."""


def peer_of(transport: asyncio.BaseTransport) -> Peer:
    """Return the other end of an established connection."""
    name = transport.get_extra_info("peername")
    address = str(name[0]) if isinstance(name, tuple) and name else ""
    certificate = transport.get_extra_info("peercert")
    principal = principal_of_certificate(certificate) if certificate else None
    scheme = "http" if transport.get_extra_info("ssl_object") is None else "https"
    return Peer(address, principal, scheme)
