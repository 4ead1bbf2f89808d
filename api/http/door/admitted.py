"""The admission of one request: its caller, the server that vouches for it, and its quota use.

Access control (`api.http.door.access_control`) creates it if callers must authenticate.
"""

import hashlib

from tms.core.errors import NotAuthenticated
from tms.core.values.caller import ANYBODY, Caller
from tms.security.forwards import body_fits, is_digest, refused_seal
from tms.security.quotas import PrincipalUse
from tms.security.sessions import Session


class Admitted:
    """The facts about the sender of a request."""

    __slots__ = (
        "_digest",
        "caller",
        "own_boot",
        "rules_epoch",
        "sealed_body",
        "session",
        "use",
        "via",
    )

    def __init__(self) -> None:
        self.session: Session | None = None
        """None until the caller is authenticated."""
        self.caller: Caller = ANYBODY
        self.use: PrincipalUse | None = None
        """None if the caller has no limits."""
        self.via: str | None = None
        """The instance id of the server that forwarded the request."""
        self.sealed_body = ""
        """The claim of that server about the body."""
        self.own_boot = ""
        """The process of this server for which it was sealed."""
        self.rules_epoch = 0
        """The epoch of the rules by which it was admitted."""
        self._digest: hashlib._Hash | None = None

    def take_part(self, part: bytes, *, is_last: bool) -> None:
        """Record a part of the body as received.

        Raises `NotAuthenticated` after the last one if the body is not the one that was sealed.
        """
        if not is_digest(self.sealed_body):
            return
        self._digest = self._digest or hashlib.sha256()
        self._digest.update(part)
        if is_last and self._digest.hexdigest() != self.sealed_body:
            raise self._altered()

    def check_whole(self, body: bytes) -> None:
        """Raise `NotAuthenticated` if a whole body is not the one that was sealed."""
        if not body_fits(self.sealed_body, body):
            raise self._altered()

    def _altered(self) -> NotAuthenticated:
        return refused_seal(self.own_boot, "the body is not as it was sealed")
