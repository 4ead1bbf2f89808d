"""The URLs of metadata stores that are servers of their own: ZooKeeper and etcd.

    zk://[USER:PASSWORD@]HOST:PORT[,HOST:PORT…]/CHROOT[?OPTION=VALUE&…]
    etcd://[USER:PASSWORD@]HOST:PORT[,HOST:PORT…]/PREFIX[?OPTION=VALUE&…]

Options: `session_timeout_s`; `ca`, a file of the authorities that the servers' certificates are
checked with, which turns TLS on; `cert` and `key`, the files of this client's certificate. User and
password are percent-encoded. All data of a store is below CHROOT or PREFIX.
"""

from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from tms.core.errors import InvalidRequest
from tms.core.text.metadata_url import SERVERS, SERVERS_WRITTEN
from tms.metadata.paths import check_value_path

SESSION_TIMEOUT_S = 30.0
"""How long a session outlives its process, by default."""
_SESSION_TIMEOUT_S_MIN = 1.0
_FILES = ("ca", "cert", "key")


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a store, and how to connect to it."""

    kind: str
    hosts: tuple[str, ...]
    """HOST:PORT of each server."""
    base: str
    """The path above all data."""
    session_timeout_s: float = SESSION_TIMEOUT_S
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    def __str__(self) -> str:
        """Return the URL without credentials and options, for logs."""
        return f"{self.kind}://{','.join(self.hosts)}{self.base}"


def parse(url: str) -> Address:
    """Return the address of a URL. Raises ValueError, which says what to give, without password."""
    kind, _, rest = url.partition("://")
    place, _, query = rest.partition("?")
    place, slash, base = place.partition("/")
    who, _, hosts = place.rpartition("@")
    if kind not in SERVERS:
        raise ValueError(f"give {SERVERS_WRITTEN}")
    try:
        check_value_path(slash + base)
    except InvalidRequest:
        raise ValueError(f"give {kind}://HOST:PORT/PATH, with a path") from None
    user, _, password = who.partition(":")
    options = _options(query)
    try:
        addresses = tuple(_host(host, SERVERS[kind].port) for host in hosts.split(","))
    except ValueError:
        if who or "@" not in rest:
            raise
        raise ValueError("write / and ? in user and password as %2F and %3F") from None
    return Address(
        kind,
        addresses,
        slash + base,
        _session_timeout_s(options.pop("session_timeout_s", None)),
        unquote(user) if who else None,
        unquote(password) if who else None,
        **options,
    )


def _host(text: str, port_default: int) -> str:
    host, _, port = text.rpartition(":") if text.rfind(":") > text.rfind("]") else (text, "", "")
    number = port or str(port_default)
    if not host or not number.isdecimal():
        raise ValueError(f"{text!r} is not a valid address: give HOST:PORT, or several with commas")
    return f"{host}:{number}"


def _options(query: str) -> dict[str, str]:
    names = ("session_timeout_s", *_FILES)
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in names or name in options or not value:
            raise ValueError(
                f"{name!r} is not a valid option; each of these may be given once, with a value: "
                f"{', '.join(names)}"
            )
        options[name] = value
    if ("cert" in options) != ("key" in options) or ("cert" in options and "ca" not in options):
        raise ValueError("cert and key need each other, and ca")
    return options


def _session_timeout_s(text: str | None) -> float:
    try:
        timeout_s = SESSION_TIMEOUT_S if text is None else float(text)
    except ValueError:
        timeout_s = 0.0
    if not _SESSION_TIMEOUT_S_MIN <= timeout_s < float("inf"):
        raise ValueError(
            f"session_timeout_s is a number of seconds, {_SESSION_TIMEOUT_S_MIN} or more"
        )
    return timeout_s
