"""A private authority: a certificate that signs those of servers and clients.

For users without another authority, and for trying things out. Keys are P-256; such an authority
signs for servers or clients, never for other authorities. Nothing is written to disk here.
"""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tms.security.principals import reason_against

AUTHORITY_DAYS = 3650
ISSUED_DAYS = 730
_EARLIER = timedelta(minutes=5)
"""For machines whose clocks are slow."""
_COMMON_NAME_CHARS_MAX = 64
_HOST_NAME = re.compile(r"(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", re.ASCII)
_FOR_SERVERS = ExtendedKeyUsageOID.SERVER_AUTH
_FOR_CLIENTS = ExtendedKeyUsageOID.CLIENT_AUTH


@dataclass(frozen=True, slots=True)
class Signed:
    """A certificate and its key, both in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


def new_authority(name: str, now: datetime) -> Signed:
    """Return an authority that is valid for ten years from `now`."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named(name)
    builder = _begun(subject, subject, key.public_key(), now, AUTHORITY_DAYS)
    usage = _usage(signs=True)
    builder = (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _signed(builder, key, key)


def issue_for_server(authority: Signed, hosts: Sequence[str], now: datetime) -> Signed:
    """Return a certificate for a server with these names and IP addresses.

    The server also presents it to other servers. Raises `ValueError` if a name is not a valid host
    name.
    """
    alternatives = x509.SubjectAlternativeName([_host(host) for host in hosts])
    return _issue(authority, hosts[0], now, (_FOR_SERVERS, _FOR_CLIENTS), alternatives)


def issue_for_client(authority: Signed, principal: str, now: datetime) -> Signed:
    """Return a certificate that names a principal. Raises `ValueError` if the name is not valid."""
    reason = reason_against(principal)
    if reason is not None:
        raise ValueError(reason)
    return _issue(authority, principal, now, (_FOR_CLIENTS,), None)


def _issue(
    authority: Signed,
    name: str,
    now: datetime,
    uses: Sequence[x509.ObjectIdentifier],
    alternatives: x509.SubjectAlternativeName | None,
) -> Signed:
    own = x509.load_pem_x509_certificate(authority.certificate)
    signing = serialization.load_pem_private_key(authority.key, password=None)
    if not isinstance(signing, ec.EllipticCurvePrivateKey):
        raise TypeError("the authority's key was not made by `tms auth init`")
    if signing.public_key() != own.public_key():
        raise ValueError("the authority's key does not belong to its certificate")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _begun(_named(name), own.subject, key.public_key(), now, ISSUED_DAYS)
    of_authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())
    builder = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(of_authority, critical=False)
    )
    if alternatives is not None:
        builder = builder.add_extension(alternatives, critical=False)
    return _signed(builder, key, signing)


def _named(name: str) -> x509.Name:
    if not 0 < len(name) <= _COMMON_NAME_CHARS_MAX:
        raise ValueError(f"a name in a certificate has 1 to {_COMMON_NAME_CHARS_MAX} characters")
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not _HOST_NAME.fullmatch(host):
        raise ValueError(f"{host!r} is not a valid host name or IP address")
    return x509.DNSName(host)


def _begun(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    """Return the usage of a key: to sign certificates, or to authenticate."""
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    signing: ec.EllipticCurvePrivateKey,
) -> Signed:
    certificate = builder.sign(signing, hashes.SHA256())
    encoding = serialization.Encoding.PEM
    return Signed(
        certificate.public_bytes(encoding),
        key.private_bytes(
            encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )
