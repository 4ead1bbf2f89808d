"""Caches the verified identities of callers by their credentials, so each is verified once.

1. A verified identity is valid until the token or password ends, or until the token's entry is
   deleted or changed, whichever comes first. A session checks that on each use (`is_over`), whether
   it is still cached here or not.
2. A bad credential raises `NotAuthenticated`, and is never treated as no credential; it is not
   cached.
3. A credential is cached once, however its header is spelled, and by a digest if it is long.
4. At most `SESSIONS_MAX` are cached, and `SESSIONS_OF_ONE_MAX` of one principal, which then loses
   its oldest. The next request verifies again what is not cached.

Used on one event loop.
"""

import hashlib
from collections.abc import Awaitable, Callable

from tms.core.errors import NotAuthenticated
from tms.core.runtime.clock import Clock
from tms.security.credentials import Credential, Scheme, Verified, credential_of, header_of
from tms.security.grants import Grants
from tms.security.principals import checked_identity
from tms.security.rules import ANONYMOUS, Identity
from tms.security.tokens import KeptToken, is_token, token_id_of

SESSIONS_MAX = 16_384
SESSIONS_OF_ONE_MAX = 256
KEY_BYTES_MAX = 128
"""Longer headers are represented by their SHA-256."""
NEVER_MS = 2**63
"""The end of what never ends."""

VerifyWebToken = Callable[[str], Awaitable[Verified]]
VerifyPassword = Callable[[str, str], Awaitable[Verified]]
"""Called with the text after Basic, and the caller's address."""


class Session:
    """A verified caller, and how long that is valid."""

    __slots__ = ("ends_ms", "identity", "key", "mechanism", "steady_ends_ms", "token")

    def __init__(
        self,
        identity: Identity,
        mechanism: Scheme | None,
        ends_ms: int | None = None,
        token: KeptToken | None = None,
        key: bytes = b"",
        *,
        steady_ends_ms: int | None = None,
    ) -> None:
        """Be valid until `ends_ms`, in ms since 1970, and `steady_ends_ms`; None for ever."""
        self.identity = identity
        self.mechanism = mechanism
        """None for an anonymous caller."""
        self.ends_ms = NEVER_MS if ends_ms is None else ends_ms
        self.steady_ends_ms = NEVER_MS if steady_ends_ms is None else steady_ends_ms
        self.token = token
        """The entry of one of our tokens; otherwise None."""
        self.key = key
        """Identifies its credential; empty if it did not come by Authorization."""

    def is_over(self, grants: Grants, clock: Clock) -> bool:
        """Whether it is no longer valid: it expired, or its token was revoked or changed."""
        if clock.keys_ms() >= self.ends_ms or clock.steady_ms() >= self.steady_ends_ms:
            return True
        token = self.token
        if token is None:
            return False
        current = grants.token(token.id)
        return current is not token and current != token


def key_of(header: bytes) -> bytes:
    """Return what identifies a value of Authorization, without parsing it."""
    return header if len(header) <= KEY_BYTES_MAX else hashlib.sha256(header).digest()


class Sessions:
    """Sessions by credentials."""

    def __init__(
        self,
        grants: Grants,
        clock: Clock,
        *,
        web_tokens: VerifyWebToken | None = None,
        passwords: VerifyPassword | None = None,
    ) -> None:
        """Verify tokens by `grants`, and other credentials by these; None refuses them."""
        self._grants = grants
        self._clock = clock
        self._web_tokens = web_tokens
        self._passwords = passwords
        self._by_key: dict[bytes, Session] = {}
        self._of_principal: dict[str, dict[bytes, None]] = {}
        """The keys of each principal, the oldest first."""
        self._by_certificate: dict[str, Session] = {}
        self.anonymous = Session(Identity(ANONYMOUS), None)

    def __len__(self) -> int:
        return len(self._by_key) + len(self._by_certificate)

    def cached(self, header: bytes) -> Session | None:
        """Return the cached session of a value of Authorization if it is still valid."""
        session = self._by_key.get(key_of(header))
        if session is None or session.is_over(self._grants, self._clock):
            return None
        return session

    async def of_header(self, header: bytes, address: str) -> Session:
        """Return the session of a value of Authorization, verified now unless it is cached.

        Raises `NotAuthenticated` (credentials_invalid), `RateExceeded`.
        """
        credential = credential_of(header)
        spelled = header_of(credential)
        cached = self.cached(spelled)
        if cached is not None:
            return cached
        key = key_of(spelled)
        self._drop(key)
        if credential.scheme is Scheme.TOKEN:
            session = self._of_token(credential.value, key)
        else:
            verified = await self._verified(credential, address)
            session = Session(
                verified.identity,
                verified.mechanism,
                verified.ends_ms,
                key=key,
                steady_ends_ms=verified.steady_ends_ms,
            )
        self._keep(session)
        return session

    def _keep(self, session: Session) -> None:
        """Cache a session; beyond the limit the oldest goes, or the principal's own oldest."""
        self._drop(session.key)  # another request may have verified it, too
        own = self._of_principal.get(session.identity.principal)
        if own is not None and len(own) >= SESSIONS_OF_ONE_MAX:
            self._drop(next(iter(own)))
        elif len(self._by_key) >= SESSIONS_MAX:
            self._drop(next(iter(self._by_key)))
        self._by_key[session.key] = session
        self._of_principal.setdefault(session.identity.principal, {})[session.key] = None

    def _drop(self, key: bytes) -> None:
        session = self._by_key.pop(key, None)
        if session is not None:
            principal = session.identity.principal
            own = self._of_principal[principal]
            del own[key]
            if not own:
                del self._of_principal[principal]

    def _of_token(self, token: str, key: bytes) -> Session:
        now_ms = self._clock.keys_ms()
        kept = self._grants.token(token_id_of(token) or "")
        if not is_token(token, kept, now_ms):
            raise _invalid(_reason(kept, now_ms))
        assert kept is not None, "a token of which nothing is kept is none"
        identity = checked_identity(kept.principal, kept.groups)
        return Session(identity, Scheme.TOKEN, kept.expires_ms, kept, key)

    async def _verified(self, credential: Credential, address: str) -> Verified:
        if credential.scheme is Scheme.BASIC and self._passwords is not None:
            return await self._passwords(credential.value, address)
        if credential.scheme is Scheme.JWT and self._web_tokens is not None:
            return await self._web_tokens(credential.value)
        kind = "passwords" if credential.scheme is Scheme.BASIC else "JSON Web Tokens"
        raise _invalid(f"this server does not take {kind}")

    def of_certificate(self, principal: str) -> Session:
        """Return the session of a client certificate's principal. Raises `NotAuthenticated`."""
        cached = self._by_certificate.get(principal)
        if cached is not None:
            return cached
        if len(self._by_certificate) >= SESSIONS_MAX:
            del self._by_certificate[next(iter(self._by_certificate))]
        session = Session(checked_identity(principal), Scheme.CERTIFICATE)
        self._by_certificate[principal] = session
        return session

    def of_forward(self, identity: Identity) -> Session:
        """Return the session of a principal that another server verified, or of that server."""
        if identity.principal == ANONYMOUS:
            return self.anonymous
        return Session(identity, Scheme.FORWARD)


def _reason(entry: KeptToken | None, now_ms: int) -> str:
    if entry is not None and entry.expires_ms is not None and now_ms >= entry.expires_ms:
        return "the token has expired: ask for a new one"
    return "the token is not known: it is wrong, or it was revoked"


def _invalid(reason: str) -> NotAuthenticated:
    return NotAuthenticated("credentials_invalid", reason=reason)
