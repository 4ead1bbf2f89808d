"""The address of a client behind trusted proxies, as these report it.

1. Only a connection from a trusted proxy is believed, and only addresses that trusted proxies have
   added: the result is the last address that is not one of theirs.
2. It is in X-Forwarded-For or in Forwarded (RFC 7239). A client may send the one that its proxy
   does not set. So if they differ, or one cannot be read, the address is `UNKNOWN`.
3. It is used for limits, for the audit, and for operations reserved to this machine. Host and
   Origin are checked as received.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv6Address, ip_address

from tms.core.text.hosts import Network

UNKNOWN = "unknown"
_HOPS_MAX = 32
"""The most proxies that a request may pass."""
_FOR = re.compile(rb'(?:^|;)\s*for\s*=\s*(?:"([^"]*)"|([^;\s]*))\s*(?=;|$)', re.IGNORECASE)
_WITH_PORT = re.compile(r"\[([0-9a-fA-F:.]+)\](?::\d{1,5})?|(\d[\d.]*)(?::\d{1,5})?", re.ASCII)


class TrustedProxies:
    """The proxies that are believed."""

    def __init__(self, networks: Iterable[Network] = ()) -> None:
        """Trust the proxies in `networks`."""
        self._networks = tuple(networks)

    def address_of(self, peer_address: str, headers: Mapping[bytes, bytes]) -> str:
        """Return the client's address for a connection from `peer_address`."""
        if not self._networks or not self._trusts(peer_address):
            return peer_address
        reported = {
            self._last(header, read, peer_address)
            for name, read in ((b"x-forwarded-for", _node), (b"forwarded", _node_of_element))
            if (header := headers.get(name)) is not None
        }
        if not reported:
            return peer_address
        return reported.pop() if len(reported) == 1 else UNKNOWN

    def _last(self, header: bytes, read: Callable[[bytes], str], peer_address: str) -> str:
        """Return the last address of a header that is not a trusted proxy's."""
        address = peer_address
        for element in reversed(header.rsplit(b",", _HOPS_MAX)[-_HOPS_MAX:]):
            address = read(element.strip())
            if not self._trusts(address):
                break
        return address

    def _trusts(self, address: str) -> bool:
        try:
            parsed = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        return any(parsed in network for network in self._networks)


def _node(element: bytes) -> str:
    """Return the address of a node, without its port; `UNKNOWN` if it is not an address."""
    text = element.decode("latin-1")
    match = _WITH_PORT.fullmatch(text)
    try:
        return str(ip_address(text if match is None else match[1] or match[2]))
    except ValueError:
        return UNKNOWN


def _node_of_element(element: bytes) -> str:
    match = _FOR.search(element)
    return UNKNOWN if match is None else _node(match[1] or match[2] or b"")
