"""Which host names mean this machine, and which addresses belong to one caller."""

import ipaddress

_IPV6_NETWORK = 64
_LOOPBACK_NAMES = ("localhost", "ip6-localhost", "ip6-loopback")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host."""
    name = host.lower().removesuffix(".")
    if name in _LOOPBACK_NAMES or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return False


def networks_of(text: str) -> list[Network]:
    """Return the networks in a list of addresses and networks. Raises `ValueError`."""
    texts = [each.strip() for each in text.split(",")]
    return [ipaddress.ip_network(each, strict=False) for each in texts if each]


def network_of(address: str) -> str:
    """Return what an address is counted by: for IPv6, a customer's network (/64)."""
    try:
        address_only = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(address_only, ipaddress.IPv6Address):
        if address_only.ipv4_mapped is not None:
            return str(address_only.ipv4_mapped)
        return str(ipaddress.ip_network((address_only, _IPV6_NETWORK), strict=False))
    return str(address_only)
