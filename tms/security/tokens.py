"""Static tokens: created here, and recognized by a hash.

    token := "tms_", id, "_", secret
    id: 12 of a-z and 0-9; secret: 32 random bytes in base64url

The secret is random, so a fast hash of it is enough. The entry has the id, the hash, the principal,
and the expiry.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

_SECRET_BYTES = 32
_ID_CHARS = 12
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
_TOKEN = re.compile(r"tms_([a-z0-9]{12})_([A-Za-z0-9_-]{43})", re.ASCII)
_NEVER_MATCHES = bytes(hashlib.sha256().digest_size)


@dataclass(frozen=True, slots=True)
class KeptToken:
    """The entry of a token, without the token itself."""

    id: str
    sha256: bytes
    """The hash of the secret in its written form."""
    principal: str
    groups: frozenset[str] = frozenset()
    expires_ms: int | None = None
    """In ms since 1970; None for never."""


def new_token(
    principal: str, groups: frozenset[str] = frozenset(), expires_ms: int | None = None
) -> tuple[str, KeptToken]:
    """Return a token, which is shown once, and its entry."""
    token_id = "".join(secrets.choice(_ALPHABET) for _ in range(_ID_CHARS))
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    kept = KeptToken(token_id, _hashed(secret), principal, groups, expires_ms)
    return f"tms_{token_id}_{secret}", kept


def entry_of_setting(text: str) -> KeptToken:
    """Return the entry of a token in the settings, ID:SHA256:PRINCIPAL."""
    token_id, hashed, principal = text.split(":", 2)
    return KeptToken(token_id, bytes.fromhex(hashed), principal)


def token_id_of(token: str) -> str | None:
    """Return the id of a token, None if it does not have the form of one."""
    match = _TOKEN.fullmatch(token)
    return None if match is None else match[1]


def is_token(token: str, entry: KeptToken | None, now_ms: int) -> bool:
    """Whether a token matches an entry, and has not ended at `now_ms`.

    It takes as long without an entry.
    """
    match = _TOKEN.fullmatch(token)
    secret = "" if match is None else match[2]
    digest = _NEVER_MATCHES if entry is None else entry.sha256
    is_same = hmac.compare_digest(_hashed(secret), digest)
    if entry is None or match is None or match[1] != entry.id or not is_same:
        return False
    return entry.expires_ms is None or now_ms < entry.expires_ms


def _hashed(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
