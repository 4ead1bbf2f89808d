"""Decides which callers are answered: those that use this server's name, and no foreign web page.

Any web page can make a browser send requests to this server, at its address or under a name that
the page's owner makes resolve to it. Two rules prevent that:

- Host must be a name of this server: a loopback name, a literal IP address, the name of the
  machine, what the server listens on or advertises, or one of the setting `allowed_hosts`.
- A browser says where a request comes from (Origin, Sec-Fetch-Site). One that comes from another
  site is refused, unless it opens a page (a GET with `Sec-Fetch-Mode: navigate`), or its origin is
  one of the setting `allowed_origins` and it has no cookies: those are the console's. The answer
  to such a request lets the page read it (CORS).

Clients other than browsers send neither Origin nor Sec-Fetch-Site.
"""

import ipaddress
import socket
from collections.abc import Iterable, Mapping

from api.http.door.proxies import TrustedProxies
from api.http.protocol.answer import lines
from api.http.protocol.head import Fields
from tms.core.errors import InvalidRequest
from tms.core.text.hosts import Network

_LOOPBACK = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
_HOST_BYTES_MAX = 300
"""More than the longest name with a port."""
_FOREIGN_SITES = (b"cross-site", b"same-site")
_SHOWN_CHARS = 100
_READABLE = (
    b"tms-stopped-at-transaction, tms-next-position, tms-at-end, tms-missing-shards, "
    b"x-request-id, retry-after, etag"
)
"""The headers that scripts of pages may read, in addition to those that they always may."""


class Callers:
    """Checks callers."""

    def __init__(
        self,
        names: Iterable[str] = (),
        proxies: Iterable[Network] = (),
        origins: Iterable[str] = (),
    ) -> None:
        """Allow `names` in addition to loopback names, IP addresses and the machine's own name.

        `proxies` are the networks of proxies that report their clients' addresses. Pages of
        `origins` may send requests and read the answers.
        """
        self._origins = frozenset(origin.lower().encode() for origin in origins)
        self.proxies = TrustedProxies(proxies)
        own = socket.gethostname()
        short = own.partition(".")[0]
        self._names = {name.lower() for name in (*_LOOPBACK, own, short, *names) if name}

    def check(self, fields: Fields, *, is_page: bool) -> None:
        """Raise `InvalidRequest` (host_not_allowed, cross_site) if a caller must not be answered.

        `is_page` says whether the request is for a page, to which other sites may link.
        """
        values = fields.values
        host = values.get(b"host")
        if host is not None and not self._knows(host):
            raise InvalidRequest("host_not_allowed", host=_shown(host), setting="allowed_hosts")
        if not fields.is_of_page:
            fields.passed.add(self)
            return
        site, origin = values.get(b"sec-fetch-site"), values.get(b"origin")
        if self._is_allowed(values) or (is_page and values.get(b"sec-fetch-mode") == b"navigate"):
            return
        if site in _FOREIGN_SITES or (origin is not None and not _is_of(origin, host)):
            raise InvalidRequest("cross_site", origin=_shown(origin or b""))

    def _is_allowed(self, values: Mapping[bytes, bytes]) -> bool:
        is_named = values.get(b"origin", b"").lower() in self._origins
        return is_named and b"cookie" not in values

    def lines_for(self, fields: Fields) -> bytes:
        """Return the header lines by which a page of an allowed origin may read the answer."""
        if not self._is_allowed(fields.values):
            return b""
        return lines(
            [
                (b"access-control-allow-origin", fields.values[b"origin"]),
                (b"access-control-expose-headers", _READABLE),
                (b"vary", b"origin"),
            ]
        )

    def _knows(self, host: bytes) -> bool:
        if len(host) > _HOST_BYTES_MAX:
            return False
        name = _without_port(host.decode("latin-1").strip().lower())
        return name in self._names or name.endswith(".localhost") or _is_address(name)


def _without_port(host: str) -> str:
    """Return the name or address of a Host field."""
    if host.startswith("["):
        return host.partition("]")[0][1:]
    name, _, port = host.rpartition(":")
    name = name if name and port.isdigit() else host
    return name.removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


def _is_of(origin: bytes, host: bytes | None) -> bool:
    """Whether a page of `origin` was served under this `host`."""
    return host is not None and origin.lower().partition(b"://")[2] == host.lower()


def _shown(value: bytes) -> str:
    return value.decode("latin-1")[:_SHOWN_CHARS]
