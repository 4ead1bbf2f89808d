"""Who callers are, kept by what they say, so that the same credential is not verified each time.

1. What was verified holds until it ends: a token's or password's own end, or until what is kept of
   the token is gone or changed, whichever comes first. The session is over when `Grants` tells it.
2. A bad credential is `NotAuthenticated`, never taken for none; it is not kept.
3. At most `SESSIONS_MAX` are kept; of more, the oldest go.

Used on one event loop.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tms.core.clock import Clock
from tms.core.errors import NotAuthenticated
from tms.security.credentials import Credential, Scheme, Verified, credential_of
from tms.security.grants import Grants
from tms.security.principals import checked_identity
from tms.security.rules import ANONYMOUS, Identity
from tms.security.tokens import KeptToken, is_token, token_id_of

Key = TypeVar("Key")
SESSIONS_MAX = 16_384
NEVER_MS = 2**63
"""An end that does not come."""

VerifyWebToken = Callable[[str], Awaitable[Verified]]
VerifyPassword = Callable[[str, str], Awaitable[Verified]]
"""Is given what stands behind Basic, and the address that it comes from."""


class Session:
    """Somebody who was verified, and until when that holds."""

    __slots__ = ("ends_ms", "identity", "mechanism", "token")

    def __init__(
        self,
        identity: Identity,
        mechanism: Scheme | None,
        ends_ms: int | None = None,
        token: KeptToken | None = None,
    ) -> None:
        """Hold until `ends_ms`, in ms since 1970; None: for ever."""
        self.identity = identity
        self.mechanism = mechanism
        """None if nobody has said who it is."""
        self.ends_ms = NEVER_MS if ends_ms is None else ends_ms
        self.token = token
        """What is kept of a token of ours; else None."""

    def end(self) -> None:
        """Hold no more."""
        self.ends_ms = 0


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
        """Verify tokens by `grants`, and the rest by what is given; None if it is not taken."""
        self._grants = grants
        self._clock = clock
        self._web_tokens = web_tokens
        self._passwords = passwords
        self._by_header: dict[bytes, Session] = {}
        self._by_certificate: dict[str, Session] = {}
        self._by_forward: dict[Identity, Session] = {}
        self.anonymous = Session(Identity(ANONYMOUS), None)

    def __len__(self) -> int:
        return len(self._by_header) + len(self._by_certificate) + len(self._by_forward)

    def known(self, header: bytes) -> Session | None:
        """Return the session of a value of Authorization if it was verified before and holds."""
        session = self._by_header.get(header)
        if session is None or self._clock.now_ms() >= session.ends_ms:
            return None
        return session

    async def of_header(self, header: bytes, address: str) -> Session:
        """Return the session of a value of Authorization, verified now.

        Raises `NotAuthenticated` (credentials_invalid), `RateExceeded`.
        """
        self._by_header.pop(header, None)
        credential = credential_of(header)
        if credential.scheme is Scheme.TOKEN:
            session = self._of_token(credential.value)
        else:
            verified = await self._verified(credential, address)
            session = Session(verified.identity, verified.mechanism, verified.ends_ms)
        return _kept(self._by_header, header, session)

    def _of_token(self, token: str) -> Session:
        now_ms = self._clock.keys_ms()
        kept = self._grants.token(token_id_of(token) or "")
        if not is_token(token, kept, now_ms):
            raise _invalid(_reason(kept, now_ms))
        assert kept is not None, "a token of which nothing is kept is none"
        identity = checked_identity(kept.principal, kept.groups)
        return Session(identity, Scheme.TOKEN, kept.expires_ms, kept)

    async def _verified(self, credential: Credential, address: str) -> Verified:
        if credential.scheme is Scheme.BASIC and self._passwords is not None:
            return await self._passwords(credential.value, address)
        if credential.scheme is Scheme.JWT and self._web_tokens is not None:
            return await self._web_tokens(credential.value)
        told = "passwords" if credential.scheme is Scheme.BASIC else "tokens of others"
        raise _invalid(f"this server takes no {told}")

    def of_certificate(self, principal: str) -> Session:
        """Return the session of whom a client's certificate names. Raises `NotAuthenticated`."""
        known = self._by_certificate.get(principal)
        if known is not None:
            return known
        session = Session(checked_identity(principal), Scheme.CERTIFICATE)
        return _kept(self._by_certificate, principal, session)

    def of_forward(self, identity: Identity) -> Session:
        """Return the session of somebody whom another server has verified, or that server's."""
        if identity.principal == ANONYMOUS:
            return self.anonymous
        known = self._by_forward.get(identity)
        if known is not None:
            return known
        return _kept(self._by_forward, identity, Session(identity, Scheme.FORWARD))

    def end_revoked(self) -> None:
        """End the sessions of tokens that were revoked, or are another's now, or end otherwise."""
        for session in self._by_header.values():
            token = session.token
            if token is not None and self._grants.token(token.id) is not token:
                session.end()


def _kept(sessions: dict[Key, Session], key: Key, session: Session) -> Session:
    if len(sessions) >= SESSIONS_MAX:
        del sessions[next(iter(sessions))]
    sessions[key] = session
    return session


def _reason(kept: KeptToken | None, now_ms: int) -> str:
    if kept is not None and kept.expires_ms is not None and now_ms >= kept.expires_ms:
        return "the token has ended: ask for another one"
    return "the token is not known here: it is wrong, or was revoked"


def _invalid(reason: str) -> NotAuthenticated:
    return NotAuthenticated("credentials_invalid", reason=reason)
