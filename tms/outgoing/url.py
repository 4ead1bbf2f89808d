"""URLs of http and https, parsed strictly: a URL that could mean two places is not valid.

A host is in lower case, a name with letters outside ASCII is in its IDNA form, and an IPv6 address
has no brackets. A host that ends in a number must be an IPv4 address of four numbers, because
resolvers take `0x7f.1` and `127.1` for this machine. A scheme's default port is omitted.
"""

import re
from base64 import b64encode
from dataclasses import dataclass, replace
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from urllib.parse import quote, unquote_to_bytes

PORTS = {"http": 80, "https": 443}
_PARTS = re.compile(
    r"(?P<scheme>[A-Za-z]+)://(?:(?P<user>[^/?#]*)@)?"
    r"(?P<host>\[[^\[\]/?#@]*\]|[^\[\]/?#@:]*)(?::(?P<port>[^/?#@:]*))?"
    r"(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?(?:#.*)?",
    re.DOTALL,
)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_PORT_MAX = 65535
_KEPT = "%/:@!$&'()*+,;=-._~"


class InvalidUrl(ValueError):
    """Raised for a text that is not a valid URL; it says why, without the text."""


@dataclass(frozen=True, slots=True)
class Url:
    """A URL by its parts."""

    scheme: str
    userinfo: str
    """The part before the @, percent-encoded."""
    host: str
    """An IPv6 address has its zone, if any, after a %."""
    port: int
    path: str
    """Percent-encoded, empty or beginning with /."""
    query: str = ""
    """Percent-encoded, without its ?."""

    @property
    def netloc(self) -> str:
        """The host and the port as requests name them, without the scheme's default port."""
        host = f"[{self.host.partition('%')[0]}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def target(self) -> bytes:
        """The path and the query as a request names them."""
        query = f"?{self.query}" if self.query else ""
        return f"{self.path or '/'}{query}".encode("ascii")

    @property
    def is_secured(self) -> bool:
        """Whether it is reached over TLS."""
        return self.scheme == "https"

    @property
    def has_name(self) -> bool:
        """Whether the host is a name, not an address."""
        return not (":" in self.host or self.host.replace(".", "").isdigit())

    @property
    def basic(self) -> bytes:
        """The user and password as a value of Authorization; empty if there are none."""
        if not self.userinfo:
            return b""
        user, _, password = self.userinfo.partition(":")
        return b"Basic " + b64encode(unquote_to_bytes(user) + b":" + unquote_to_bytes(password))

    def without_user(self) -> "Url":
        """Return the URL without its user; URLs of one place are then equal."""
        return replace(self, userinfo="", path=self.path.rstrip("/"))

    def __str__(self) -> str:
        """Return the URL."""
        user = f"{self.userinfo}@" if self.userinfo else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        query = f"?{self.query}" if self.query else ""
        return f"{self.scheme}://{user}{host}{port}{self.path}{query}"


@lru_cache(256)
def parse_url(text: str) -> Url:
    """Return the parts of a URL. Raises `InvalidUrl`."""
    match = _PARTS.fullmatch(text)
    if match is None:
        raise InvalidUrl("it is not of the form http://HOST:PORT")
    if _CONTROLS.search(text):
        raise InvalidUrl("it has a control character")
    scheme = match["scheme"].lower()
    if scheme not in PORTS:
        raise InvalidUrl("its scheme is neither http nor https")
    return Url(
        scheme,
        quote(match["user"] or "", safe=_KEPT),
        _host(match["host"]),
        _port(match["port"], scheme),
        quote(match["path"] or "", safe=_KEPT),
        quote(match["query"] or "", safe=_KEPT + "?"),
    )


def _port(text: str | None, scheme: str) -> int:
    if not text:
        return PORTS[scheme]
    if not text.removeprefix("-").isdecimal() or not text.isascii():
        raise InvalidUrl("its port is not a number")
    if not _PORT.fullmatch(text) or not 0 < int(text) <= _PORT_MAX:
        raise InvalidUrl(f"it has a port that is not from 1 to {_PORT_MAX}")
    return int(text)


def _host(text: str) -> str:
    if text.startswith("["):
        address, _, zone = text[1:-1].partition("%")
        zone = zone.removeprefix("25")
        try:
            host = str(IPv6Address(address))
        except AddressValueError:
            raise InvalidUrl("its host is not a valid IPv6 address") from None
        if zone and not _NAME.fullmatch(zone):
            raise InvalidUrl("its host has a zone with characters that zones do not have")
        return f"{host}%{zone}" if zone else host
    if not text:
        raise InvalidUrl("it names no host")
    host = text.lower() if text.isascii() else _in_ascii(text.lower())
    if not _NAME.fullmatch(host):
        raise InvalidUrl("it has a host with characters that hosts do not have")
    if _NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]):
        try:
            IPv4Address(host)
        except AddressValueError:
            raise InvalidUrl("its host is not a valid IPv4 address: write four numbers") from None
    return host


def _in_ascii(name: str) -> str:
    try:
        host = name.encode("idna")
        is_same = host.decode("idna") == name  # otherwise versions of IDNA disagree on the name
    except UnicodeError:
        raise InvalidUrl("it has a host with characters that hosts do not have") from None
    if not is_same:
        raise InvalidUrl("its host can be read as two names: write it in ASCII, as xn--…")
    return host.decode("ascii")
