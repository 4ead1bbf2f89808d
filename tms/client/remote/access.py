"""The access to a server: the credentials, and the trusted certificates.

What a caller does not give is taken from the environment: TMS_TOKEN, else TMS_TOKEN_FILE, else the
file ~/.config/tms/token; TMS_CA; TMS_CERTIFICATE with TMS_CERTIFICATE_KEY; TMS_ALLOW_PLAINTEXT.

Guarantees that credentials are not sent unencrypted to another machine unless that is allowed.
"""

import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tms.client.remote.addresses import parse_addresses
from tms.client.remote.credentials import Auth, Credentials, credentials_of
from tms.core.errors import InvalidRequest
from tms.core.runtime.tls import client_context, is_read_by_others
from tms.core.text.hosts import is_loopback
from tms.outgoing.answer import Answer
from tms.outgoing.url import parse_url

Certificate = str | Path | tuple[str | Path, str | Path]
"""A file with a certificate and its key, or a file of each."""

TOKEN_VARIABLE = "TMS_TOKEN"  # noqa: S105  the name of a variable
TOKEN_FILE_VARIABLE = "TMS_TOKEN_FILE"  # noqa: S105
CA_VARIABLE = "TMS_CA"
CERTIFICATE_VARIABLE = "TMS_CERTIFICATE"
KEY_VARIABLE = "TMS_CERTIFICATE_KEY"
PLAINTEXT_VARIABLE = "TMS_ALLOW_PLAINTEXT"
TOKEN_FILE = Path(".config/tms/token")
"""Relative to the home folder."""
_YES = ("1", "true", "yes", "on", "y", "t")


class RequestSigning(Protocol):
    """Signs each request with the name of its sender."""

    def line(self, method: str, target: bytes, body: bytes) -> bytes:
        """Return the header line with the name and the signature."""
        ...

    def is_for_another(self, answer: Answer) -> bool:
        """Whether the request was meant for another process than the one that answered.

        The process that answered has done nothing; later requests are meant for it.
        """
        ...


@dataclass(frozen=True, slots=True)
class Access:
    """The access to a server."""

    credentials: Credentials | None = None
    tls: ssl.SSLContext | None = None
    """If None, servers at https:// are checked against the machine's own certificates."""
    signing: RequestSigning | None = None
    """Signs requests between the servers of a cluster."""
    allow_plaintext: bool = False
    """Whether credentials may be sent unencrypted to other machines."""

    def check(self, addresses: Sequence[str]) -> None:
        """Raise `InvalidRequest` (plaintext_credentials) if that is needed but not allowed."""
        if self.allow_plaintext:
            return
        for address in addresses:
            url = parse_url(address)
            has_credentials = self.credentials is not None or url.userinfo
            if has_credentials and url.scheme == "http" and not is_loopback(url.host):
                shown = f"{url.scheme}://{url.netloc}"
                raise InvalidRequest(
                    "plaintext_credentials", url=shown, variable=PLAINTEXT_VARIABLE
                )

    def has_credentials(self, addresses: Sequence[str]) -> bool:
        """Whether requests contain anything that a stranger could use."""
        is_named = any(parse_url(address).userinfo for address in addresses)
        return is_named or self.credentials is not None or self.signing is not None

    def trusts_proxies(self, addresses: Sequence[str]) -> bool:
        """Whether a proxy that the environment names may see what is sent.

        False if the servers are on this machine: no proxy is used between its processes.
        """
        urls = [parse_url(address) for address in addresses]
        if all(is_loopback(url.host) for url in urls):
            return False
        if self.allow_plaintext:
            return True
        is_seen = any(
            url.scheme == "http" and (self.credentials is not None or url.userinfo) for url in urls
        )
        return not is_seen


ANYBODY = Access()


def access_of(
    url: str,
    *,
    auth: Auth | None = None,
    ca: str | Path | None = None,
    certificate: Certificate | None = None,
    allow_plaintext: bool = False,
) -> Access:
    """Return how to reach the servers that `url` names; the environment sets what is None.

    Raises `InvalidRequest` (plaintext_credentials), `ValueError` for files that cannot be used and
    for an invalid URL.
    """
    addresses = parse_addresses(url)
    credentials = None
    if any(parse_url(address).userinfo for address in addresses):
        if auth is not None:
            raise ValueError("give either auth, or a user and a password in the URL")
    else:
        credentials = _default() if auth is None else credentials_of(auth)
    is_allowed = allow_plaintext or os.environ.get(PLAINTEXT_VARIABLE, "").lower() in _YES
    tls = None
    if any(address.startswith("https:") for address in addresses):
        tls = _tls(ca, certificate)
    access = Access(credentials, tls, allow_plaintext=is_allowed)
    access.check(addresses)
    return access


def _default() -> Credentials | None:
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if token:
        return credentials_of(token)
    named = os.environ.get(TOKEN_FILE_VARIABLE)
    if named:
        return credentials_of(Path(named))
    file = Path("~").expanduser() / TOKEN_FILE
    try:
        is_open = is_read_by_others(file)
    except OSError:
        return None
    if is_open:
        raise ValueError(f"other users of this machine may read {file}: chmod 600 {file}")
    return credentials_of(file)


def _tls(ca: str | Path | None, certificate: Certificate | None) -> ssl.SSLContext:
    trusted, ca_name = (str(ca), "ca") if ca else (os.environ.get(CA_VARIABLE, ""), CA_VARIABLE)
    if certificate is None:
        shown = os.environ.get(CERTIFICATE_VARIABLE, "")
        key = os.environ.get(KEY_VARIABLE, "")
        names = (CERTIFICATE_VARIABLE, KEY_VARIABLE if key else CERTIFICATE_VARIABLE)
    else:
        pair = certificate if isinstance(certificate, tuple) else (certificate, certificate)
        shown, key = str(pair[0]), str(pair[1])
        names = ("certificate", "certificate")
    return client_context(trusted, shown, key, names=(ca_name, *names))
