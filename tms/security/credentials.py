"""The credentials of a caller in the header Authorization, and the verified identity.

    Authorization := "Bearer" spaces token | "Basic" spaces base64

The scheme is case-insensitive. Errors do not contain any part of the credentials.
"""

import base64
import hashlib
import hmac
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from tms.core.errors import NotAuthenticated
from tms.security.rules import Identity
from tms.security.tokens import token_id_of

HEADER_BYTES_MAX = 16 * 1024
"""The most characters of the header."""
_NAMES_KEY = secrets.token_bytes(32)
_DIGITS_TOLD = 12
_TOKEN_PREFIX = "tms_"  # noqa: S105  # how tokens begin
_FIELD = re.compile(rb"([A-Za-z]+) +(\S+)")
_BEARER = re.compile(rb"[A-Za-z0-9._~+/-]+=*")
_BASIC = re.compile(rb"[A-Za-z0-9+/]+={0,2}")


class Scheme(StrEnum):
    """How a caller authenticates."""

    TOKEN = "token"  # noqa: S105  # a name
    """One of our tokens: `Bearer tms_…`."""
    JWT = "jwt"
    """A JSON Web Token: any other `Bearer`."""
    BASIC = "basic"
    """A name and a password."""
    CERTIFICATE = "certificate"
    """A client's certificate, verified by TLS."""
    FORWARD = "forward"
    """Another server of the cluster vouches for it."""


@dataclass(frozen=True, slots=True)
class Credential:
    """Credentials that are not verified yet."""

    scheme: Scheme
    value: str = field(repr=False)
    """The text after the scheme: a token, or base64."""


@dataclass(frozen=True, slots=True)
class Verified:
    """A verified caller."""

    identity: Identity
    ends_ms: int | None
    """When it must be verified again, in ms since 1970; None for never."""
    mechanism: Scheme
    steady_ends_ms: int | None = None
    """The same by steady time, which no setting of the clock prolongs."""


def credential_of(header: bytes) -> Credential:
    """Return the credential in the value of the header Authorization.

    Raises `NotAuthenticated` (credentials_invalid).
    """
    if len(header) > HEADER_BYTES_MAX:
        raise _invalid(f"Authorization is over {HEADER_BYTES_MAX} bytes")
    match = _FIELD.fullmatch(header.strip(b" \t"))
    if match is None:
        raise _invalid("Authorization is `Bearer TOKEN` or `Basic BASE64`")
    scheme, value = match[1].lower(), match[2]
    if scheme == b"bearer":
        if not _BEARER.fullmatch(value):
            raise _invalid("the token after Bearer has characters that are not allowed")
        token = value.decode("ascii")
        return Credential(Scheme.TOKEN if token.startswith(_TOKEN_PREFIX) else Scheme.JWT, token)
    if scheme == b"basic":
        if not _BASIC.fullmatch(value):
            raise _invalid("the text after Basic is not base64")
        return Credential(Scheme.BASIC, value.decode("ascii"))
    raise _invalid("the scheme of Authorization is Bearer or Basic")


def header_of(credential: Credential) -> bytes:
    """Return the canonical value of Authorization for a credential."""
    if credential.scheme is Scheme.BASIC:
        with suppress(ValueError):  # The last bits may be unused and have any value.
            plain = base64.b64decode(credential.value, validate=True)
            return b"Basic " + base64.b64encode(plain)
        return b"Basic " + credential.value.encode()
    return b"Bearer " + credential.value.encode()


def tried_by(header: bytes) -> str | None:
    """Return a key of the claimed principal, which is not verified; None without one.

    It is a token's id, or a digest of a name with a key of this process, because people may type a
    password as the name.
    """
    try:
        credential = credential_of(header)
        if credential.scheme is Scheme.BASIC:
            name = base64.b64decode(credential.value).partition(b":")[0]
            return hmac.digest(_NAMES_KEY, name, hashlib.sha256).hex()[:_DIGITS_TOLD]
    except (NotAuthenticated, ValueError):
        return None
    return token_id_of(credential.value) if credential.scheme is Scheme.TOKEN else None


def _invalid(reason: str) -> NotAuthenticated:
    return NotAuthenticated("credentials_invalid", reason=reason)
