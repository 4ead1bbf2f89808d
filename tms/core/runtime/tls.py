"""The files of TLS: contexts of a server and of a client, made of certificates and keys.

Guarantees TLS 1.2 or later, and HTTP/1.1 by ALPN. A fault of a file is a `ValueError` that begins
with the name of the setting, and never contains the content of the file. A key that needs a
password is refused: nobody is there to be asked.
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
    """The certificate and key of a server, and the certificates that it trusts clients by."""

    cert: str
    key: str
    client_ca: str = ""
    """Empty: clients are asked for no certificate."""

    @property
    def all(self) -> tuple[str, ...]:
        """The files."""
        return tuple(each for each in (self.cert, self.key, self.client_ca) if each)


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """Return the context of a server.

    With `client_ca`, clients may show a certificate of it; who shows another one is turned away.
    Raises `ValueError`, which names the setting.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # older OpenSSL would let clients ask for it
    context.set_alpn_protocols(list(ALPN))
    _load_chain(context, files.cert, files.key, "tls_cert", "tls_key")
    if files.client_ca:
        _load_trusted(context, files.client_ca, "tls_client_ca")
        context.verify_mode = ssl.CERT_OPTIONAL
        # Who resumes a session shows no certificate again, although it may have ended meanwhile.
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
    """Return the context of a client, which checks the server's name in any case.

    Servers are trusted by the certificates in the file `ca`, else by the machine's own.
    `certificate` is shown to servers that ask; the key may be in the same file. `names` are what
    the caller calls the three. Raises `ValueError`, which names one of them.
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
    """Whether other users of the machine may read or change a file. Raises `OSError`."""
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
            told = f"{key_name}: the key in {key} does not belong to the certificate in {cert}"
            raise ValueError(f"{told}: give a certificate and its own key") from None
        _raise_wrong(error, cert, cert_name, key, key_name)


def _raise_wrong(error: ssl.SSLError, cert: str, cert_name: str, key: str, key_name: str) -> None:
    """Raise a `ValueError` that says which of the two files it is."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cert)
    except ssl.SSLError:
        told = f"{cert_name}: {cert} is not a certificate in PEM form (-----BEGIN CERTIFICATE-----)"
        raise ValueError(told) from None
    told = f"{key_name}: {key} is not a usable key in PEM form ({error.reason or error})"
    raise ValueError(told) from None


def _load_trusted(context: ssl.SSLContext, file: str, name: str) -> None:
    _check_readable(file, name)
    try:
        context.load_verify_locations(file)
    except ssl.SSLError:
        told = f"{name}: {file} has no certificates in PEM form (-----BEGIN CERTIFICATE-----)"
        raise ValueError(told) from None


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
    """Return what is called for the password of a key, where OpenSSL would ask a person."""

    def refuse() -> str:
        told = f"{name}: the key in {file} is encrypted: give one that needs no password"
        raise ValueError(told)

    return refuse
