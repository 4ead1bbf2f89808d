"""How a server of a cluster forwards the caller's name, so that nobody else can claim it. Pure.

    TMS-Principal := v1;key=ID;from=INSTANCE;boot=HEX[;for=HEX];n=COUNTER;t=MS[;w=MS];who=NAME;
                     groups=NAME,NAME;body=BODY;sig=HMAC-SHA256 in base64url
    BODY          := SHA-256 of the whole body in hex | "len:" its announced length | "chunked"

1. The signature covers everything before `sig`, the method, the path and query as sent, and the
   address of the target server, so a seal is valid for one request to one server.
2. A server accepts each seal once, and only if its time is within 30 s of its own. Each process of
   a server has its own boot id, published with its address. A seal names the boot that it is for,
   so one for an earlier process is refused, whatever the clocks say, because that process may have
   accepted it. A seal that names none (the boot was unknown) is refused if its time is before the
   process started. A refused sender gets the boot id, and may seal again: nothing was done.
3. The memory for this is bounded: a window of 65,536 counters for each sender (as in IPsec), and
   1,000 senders. Beyond that, the sender that was silent for longest, at least 60 s, is dropped.
4. Of a streamed body only the announced length is covered, of a chunked one nothing: an attacker
   between servers could change it. TLS prevents that.

Clocks of servers must agree within 30 s. All of this is used from one event loop.
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Never, Protocol
from urllib.parse import quote, unquote

from tms.core.errors import NotAuthenticated
from tms.core.runtime.clock import Clock
from tms.security.principals import SERVER
from tms.security.replays import Replays
from tms.security.rules import Identity

HEADER = "TMS-Principal"
BOOT_HEADER = "TMS-Boot"
"""In the answer to a refused seal: the boot that seals must name."""
HEADER_BYTES_MAX = 16 * 1024
SKEW_MS_MAX = 30_000
_CHUNKED = "chunked"
_LENGTH = "len:"
_NAME = r"[A-Za-z0-9_.~%-]"
_HEADER = re.compile(
    rf"(?P<signed>v1;key=(?P<key>{_NAME}+);from=(?P<sender>{_NAME}+);boot=(?P<boot>[0-9a-f]{{16}})"
    rf"(?:;for=(?P<target>[0-9a-f]{{16}}))?;n=(?P<n>[0-9]{{1,18}});t=(?P<t>[0-9]{{1,15}})(?:;w=(?P<w>[0-9]{{1,15}}))?;who=(?P<who>{_NAME}*)"
    rf";groups=(?P<groups>{_NAME}*(?:,{_NAME}+)*)"
    r";body=(?P<body>[0-9a-f]{64}|len:[0-9]{1,18}|chunked));sig=(?P<sig>[A-Za-z0-9_-]{43})",
    re.ASCII,
)


class SealingKeys(Protocol):
    """Keys shared by all servers of a cluster."""

    def sealing(self) -> tuple[str, bytes]:
        """Return the id and the secret of the key to seal with."""
        ...

    def valid(self, key_id: str) -> bytes | None:
        """Return the secret of a valid key; None if there is none with this id."""
        ...


@dataclass(frozen=True, slots=True)
class Opened:
    """The principal that a server forwarded."""

    identity: Identity | None
    """The principal of the caller."""
    sender: str
    """The instance id of the server that forwarded it."""
    body: str
    """The claim about the body; `body_fits` and `length_fits` compare it."""


def server_identity(instance_id: str) -> Identity:
    """Return the identity of a server itself, for calls of its own."""
    return Identity(f"{SERVER}{instance_id}")


def body_claim(body: bytes | int | None) -> str:
    """Return the claim about a body: its digest, its announced length, or that it is chunked."""
    if body is None:
        return _CHUNKED
    return f"{_LENGTH}{body}" if isinstance(body, int) else hashlib.sha256(body).hexdigest()


def body_fits(claim: str, body: bytes) -> bool:
    """Whether a whole body matches a claim, as far as the claim covers it."""
    if claim == _CHUNKED:
        return True
    if claim.startswith(_LENGTH):
        return claim == body_claim(len(body))
    return hmac.compare_digest(claim, body_claim(body))


def is_digest(claim: str) -> bool:
    """Whether a claim covers the whole body."""
    return bool(claim) and claim != _CHUNKED and not claim.startswith(_LENGTH)


def length_fits(claim: str, length: int | None) -> bool:
    """Whether a claim allows this announced length (None if chunked); a digest allows any."""
    if claim == _CHUNKED:
        return length is None
    return claim == body_claim(length) if claim.startswith(_LENGTH) else True


def new_boot() -> str:
    """Return a unique name of a process."""
    return secrets.token_hex(8)


def refused_seal(boot: str, reason: str) -> NotAuthenticated:
    """Return the error for a seal that the process `boot` does not accept.

    It is meant for that server, and says nothing about the credentials of a client.
    """
    return NotAuthenticated("credentials_invalid", reason=f"{HEADER}: {reason}", boot=boot)


class Sealer:
    """Seals what this server forwards to others."""

    def __init__(self, keys: SealingKeys, instance_id: str, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self.instance_id = instance_id
        self._start = f"from={_told(instance_id)};boot={new_boot()}"
        self._counter = count(1)

    def seal(
        self,
        identity: Identity | None,
        method: str,
        path: str,
        query: bytes,
        *,
        target: str,
        body: bytes | int | None,
        boot: str = "",
    ) -> bytes:
        """Return the header's value for one request.

        `path` and `query` are as sent. `target` is the address of the target server, as it knows
        it, and `boot` its process, empty if unknown. `body` is the whole body, its announced length
        in bytes, or None if it is chunked.
        """
        key_id, secret = self._keys.sealing()
        who = "" if identity is None else _told(identity.principal)
        groups = () if identity is None else sorted(identity.groups)
        trusted_ms, wall_ms = self._clock.candidates()
        wall = "" if wall_ms == trusted_ms else f";w={wall_ms}"
        named = f";for={boot}" if boot else ""
        signed = (
            f"v1;key={key_id};{self._start}{named};n={next(self._counter)};t={trusted_ms}{wall}"
            f";who={who};groups={','.join(map(_told, groups))};body={body_claim(body)}"
        )
        return f"{signed};sig={_signature(secret, signed, method, path, query, target)}".encode()


class Opener:
    """Opens what others forwarded to this server."""

    def __init__(
        self, keys: SealingKeys, own_address: str, clock: Clock, boot: str | None = None
    ) -> None:
        """Accept seals for `own_address`, as other servers know it, from now on.

        `boot` names this process; if None, it has a name that was not published.
        """
        self._keys = keys
        self.boot = boot or new_boot()
        """Identifies this process."""
        self._own_address = own_address
        self._clock = clock
        self._started_ms = clock.steady_ms()
        self._replays = Replays(clock.steady_ms)

    def open(self, header: bytes, method: str, path: str, query: bytes) -> Opened:
        """Return the caller in a header's value. The request is as received.

        Raises `NotAuthenticated` (credentials_invalid).
        """
        match = _HEADER.fullmatch(_text(header))
        if match is None:
            self._refuse("its form is not valid")
        secret = self._keys.valid(match["key"])
        if secret is None:
            self._refuse("its key is unknown")
        signature = _signature(secret, match["signed"], method, path, query, self._own_address)
        if not hmac.compare_digest(signature, match["sig"]):
            self._refuse("its signature is wrong, or for another request or server")
        if match["target"] not in (None, self.boot):
            self._refuse("it is for another process of this server, which has ended")
        ages = [int(match[name]) for name in ("t", "w") if match[name]]
        self._check_time(ages, is_for_this=match["target"] is not None)
        reason = self._replays.take(f"{match['sender']};{match['boot']}", int(match["n"]))
        if reason is not None:
            self._refuse(reason)
        return Opened(
            _identity(match["who"], match["groups"]), unquote(match["sender"]), match["body"]
        )

    def _check_time(self, sealed: Sequence[int], *, is_for_this: bool) -> None:
        """Refuse seals with another time than now.

        If a seal does not name this process, also refuse one from before its start.

        While a clock is in doubt, here or there, it has two times; one pair must agree.
        """
        ages = [own - at for own in self._clock.candidates() for at in sealed]
        age_ms = min(ages, key=abs)
        if abs(age_ms) > SKEW_MS_MAX:
            self._refuse(
                f"its time is not now; the clocks of servers must agree within {SKEW_MS_MAX} ms"
            )
        if not is_for_this and age_ms > self._clock.steady_ms() - self._started_ms:
            self._refuse("it was sealed before this server started")

    def _refuse(self, reason: str) -> Never:
        raise refused_seal(self.boot, reason)


def _identity(name: str, groups: str) -> Identity | None:
    if not name:
        return None
    return Identity(unquote(name), frozenset(map(unquote, filter(None, groups.split(",")))))


def _signature(secret: bytes, *parts: str | bytes) -> str:
    mac = hmac.new(secret, digestmod=hashlib.sha256)
    for part in (part.encode() if isinstance(part, str) else part for part in parts):
        # With its length before it, no part can be mistaken for the end of another.
        mac.update(len(part).to_bytes(8, "big") + part)
    return base64.urlsafe_b64encode(mac.digest()).rstrip(b"=").decode("ascii")


def _told(name: str) -> str:
    return quote(name, safe="")


def _text(header: bytes) -> str:
    return header.decode("ascii") if len(header) <= HEADER_BYTES_MAX and header.isascii() else ""
