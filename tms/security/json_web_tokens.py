"""Verifies JSON Web Tokens of other issuers: principal, expiry and signature.

1. The key determines the algorithm (`json_web_keys`); the token must name the same and cannot
   choose another. `none` and shared secrets are not supported.
2. Issuer, audience, end (exp) and start (nbf) are required. Times are by the server's clock.
3. Errors do not contain any part of the token.
"""

from collections.abc import Mapping
from typing import Any, Never

import jwt

from tms.core.errors import NotAuthenticated
from tms.core.limits import MS_PER_S
from tms.core.runtime.clock import Clock
from tms.security.credentials import HEADER_BYTES_MAX, Scheme, Verified
from tms.security.json_web_keys import WebKey, WebKeys
from tms.security.principals import checked_identity

ALGORITHMS = ("RS256", "ES256", "EdDSA")
LEEWAY_S = 30
_TIME_S_MAX = 253_402_300_799
"""The end of the year 9999."""


class WebTokenVerifier:
    """Verifies tokens of one issuer for one audience."""

    def __init__(
        self,
        keys: WebKeys,
        issuer: str,
        audience: str,
        principal_claim: str = "sub",
        groups_claim: str = "groups",
        *,
        clock: Clock,
        leeway_s: int = LEEWAY_S,
    ) -> None:
        """Accept tokens signed by `keys`. `leeway_s` is how much clocks may differ, in seconds."""
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._principal_claim = principal_claim
        self._groups_claim = groups_claim
        self._clock = clock
        self._leeway_ms = leeway_s * MS_PER_S

    async def verify(self, token: str) -> Verified:
        """Return the caller in a token. Raises `NotAuthenticated` (credentials_invalid)."""
        if len(token) > HEADER_BYTES_MAX:
            _refuse(f"the token is over {HEADER_BYTES_MAX} bytes")
        key = await self._key_of(token)
        claims = self._claims(token, key)
        ends_ms = self._end_ms(claims)
        identity = checked_identity(self._principal(claims), self._groups(claims))
        return Verified(identity, ends_ms, Scheme.JWT)

    async def _key_of(self, token: str) -> WebKey:
        """Return the key that a token names, which must fit the token's algorithm."""
        try:
            head = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            _refuse("the token is no JSON Web Token")
        if "crit" in head:
            _refuse("the token has critical extensions, which this server does not know")
        algorithm = head.get("alg")
        if algorithm not in ALGORITHMS:
            _refuse(f"the token is not signed by one of {', '.join(ALGORITHMS)}")
        name = head.get("kid")
        if name is not None and not isinstance(name, str):
            _refuse("the token's key id is not text")
        key = await self._keys.key(name)
        if key is None:
            _refuse("the token's key is unknown" if name else "the token names no key")
        if key.algorithm != algorithm:
            _refuse("the token's key is for another algorithm")
        return key

    def _claims(self, token: str, key: WebKey) -> Mapping[str, Any]:
        """Return a token's claims, after checking its signature and issuer."""
        required = ["iss", "aud", "exp", "nbf"]
        try:
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=[key.algorithm],
                issuer=self._issuer,
                audience=self._audience,
                # Our own code checks the times, by our clock, and the name.
                options={
                    "require": required,
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "verify_sub": False,
                    "verify_jti": False,
                },
            )
        except jwt.InvalidSignatureError:
            _refuse("the token's signature is wrong")
        except jwt.InvalidIssuerError:
            _refuse("the token is of another issuer")
        except jwt.InvalidAudienceError:
            _refuse("the token is for another audience")
        except jwt.MissingRequiredClaimError:
            _refuse(f"the token lacks one of {', '.join(required)}")
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            _refuse("the token is no JSON Web Token")
        return claims

    def _end_ms(self, claims: Mapping[str, Any]) -> int:
        """Return when a valid token ends, in ms since 1970, including the leeway."""
        starts_ms = _time_ms(claims["nbf"], "nbf") - self._leeway_ms
        ends_ms = _time_ms(claims["exp"], "exp") + self._leeway_ms
        if self._clock.keys_ms() >= ends_ms:
            _refuse("the token has expired")
        if self._clock.expiry_ms() < starts_ms:
            _refuse("the token is not valid yet")
        return ends_ms

    def _principal(self, claims: Mapping[str, Any]) -> str:
        principal = claims.get(self._principal_claim)
        if not isinstance(principal, str):
            _refuse(f"the token's claim {self._principal_claim} is missing, or is not text")
        return principal

    def _groups(self, claims: Mapping[str, Any]) -> list[str]:
        groups = claims.get(self._groups_claim, [])
        if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
            _refuse(f"the token's claim {self._groups_claim} is not a list of texts")
        return groups


def _time_ms(value: Any, claim: str) -> int:
    """Return a time in a token in ms since 1970."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _TIME_S_MAX:
        _refuse(f"the token's claim {claim} is not a time in seconds since 1970")
    return int(value * MS_PER_S)


def _refuse(reason: str) -> Never:
    raise NotAuthenticated("credentials_invalid", reason=reason)
