"""TLS contexts of a server and of a client, made from files of certificates and keys.

Guarantees TLS 1.2 or later, and HTTP/1.1 by ALPN. A faulty file is a `ValueError` that begins with
the name of the setting and never contains the file's content. A key that needs a password is
refused, because nobody could type it.
"""

import ssl
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ALPN = ("http/1.1",)
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The certificate and key of a server, and the certificates by which it trusts clients."""

    cert: str
    key: str
    client_ca: str = ""
    """If empty, clients are not asked for a certificate."""

    @property
    def all(self) -> tuple[str, ...]:
        """The files."""
        return tuple(each for each in (self.cert, self.key, self.client_ca) if each)


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """Return the context of a server.

    With `client_ca`, clients may present a certificate that it signed; any other is rejected.
    Raises `ValueError`, which names the setting.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # older OpenSSL lets clients ask for it
    context.set_alpn_protocols(list(ALPN))
    _load_chain(context, files.cert, files.key, "tls_cert", "tls_key")
    if files.client_ca:
        _load_trusted(context, files.client_ca, "tls_client_ca")
        context.verify_mode = ssl.CERT_OPTIONAL
        # A resumed session presents no certificate, although that may have expired since.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    return context


def client_context(
    ca: str = "",
    certificate: str = "",
    key: str = "",
    *,
    names: tuple[str, str, str] = ("ca", "certificate", "certificate"),
) -> ssl.SSLContext:
    """Return the context of a client, which always checks the server's name.

    Servers are trusted by the certificates in the file `ca`, or by the machine's own without one.
    `certificate` is presented to servers that ask; the key may be in the same file. `names` are the
    caller's names of the three; a `ValueError` begins with one of them.
    """
    if ca:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _load_trusted(context, ca, names[0])
    else:
        context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(list(ALPN))
    if certificate:
        _load_chain(context, certificate, key or certificate, names[1], names[2])
    return context


def is_read_by_others(file: str | Path) -> bool:
    """Whether other users of the machine may read or write a file. Raises `OSError`."""
    return bool(Path(file).stat().st_mode & _OF_OTHERS)


def _load_chain(
    context: ssl.SSLContext, cert: str, key: str, cert_name: str, key_name: str
) -> None:
    _check_readable(cert, cert_name)
    _check_readable(key, key_name)
    try:
        context.load_cert_chain(cert, key, password=_refusal_to_ask(key, key_name))
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            message = f"{key_name}: the key in {key} does not belong to the certificate in {cert}"
            raise ValueError(f"{message}: give a certificate and its own key") from None
        _raise_wrong(error, cert, cert_name, key, key_name)


def _raise_wrong(error: ssl.SSLError, cert: str, cert_name: str, key: str, key_name: str) -> None:
    """Raise a `ValueError` that says which of the two files it is."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cert)
    except ssl.SSLError:
        message = (
            f"{cert_name}: {cert} is not a certificate in PEM form (-----BEGIN CERTIFICATE-----)"
        )
        raise ValueError(message) from None
    message = f"{key_name}: {key} is not a usable key in PEM form ({error.reason or error})"
    raise ValueError(message) from None


def _load_trusted(context: ssl.SSLContext, file: str, name: str) -> None:
    _check_readable(file, name)
    try:
        context.load_verify_locations(file)
    except ssl.SSLError:
        message = f"{name}: {file} has no certificates in PEM form (-----BEGIN CERTIFICATE-----)"
        raise ValueError(message) from None


def _check_readable(file: str, name: str) -> None:
    """Raise `ValueError` if a file cannot be read; OpenSSL would not say which."""
    if "-----BEGIN" in file:
        raise ValueError(f"{name}: give the path of the file, not its content")
    try:
        with Path(file).open("rb") as opened:
            opened.read(1)
    except OSError as error:
        raise ValueError(f"{name}: {file} cannot be read: {error.strerror}") from None


def _refusal_to_ask(file: str, name: str) -> Callable[[], str]:
    """Return the callback for a key's password, for which OpenSSL would prompt."""

    def refuse() -> str:
        message = f"{name}: the key in {file} is encrypted: give one that needs no password"
        raise ValueError(message)

    return refuse
