"""The keys with which others sign JSON Web Tokens: from a file, or from an https:// URL.

1. A key's type determines its algorithm: RSA of at least 2048 bits RS256, P-256 ES256, Ed25519
   EdDSA. Others are ignored, also symmetric ones, because a key that everybody can read proves
   nothing.
2. A URL is fetched every 10 minutes, and for an unknown key id at most once in 30 s; callers that
   need that key wait for the answer. A file is read again after a change.
3. If that fails, the earlier keys stay valid, and the log says so once.
4. The answer of a URL is bounded in bytes, keys and time, and may only be redirected to https://.
"""

import asyncio
import json
import logging
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from tms.core.runtime.clock import Clock
from tms.core.runtime.shared_work import shared
from tms.core.runtime.supervision import supervised
from tms.core.text.credentials import without_credentials
from tms.outgoing.answer import Answer, BrokenAnswer
from tms.outgoing.proxies import proxy_of
from tms.outgoing.upstream import Upstream
from tms.outgoing.url import parse_url
from tms.security.watched_file import WatchedFile

BYTES_MAX = 1024 * 1024
KEYS_MAX = 100
FETCH_S_MAX = 10.0
EVERY_S = 600.0
UNKNOWN_EVERY_MS = 30_000
_REDIRECTS_MAX = 3
_OK, _REDIRECTED = 200, (301, 302, 303, 307, 308)
_FIELDS = b"accept: application/json\r\naccept-encoding: identity\r\n"
"""No compression, so that a body is as long as its bytes."""
_RSA_BITS_MIN = 2048
_HTTPS = "https://"
_OLDEST = float("-inf")

_log = logging.getLogger(__name__)


class KeysUnreadable(ValueError):
    """Raised for a text that is not a valid set of keys; it says what is wrong."""


@dataclass(frozen=True, slots=True)
class WebKey:
    """One key that verifies signatures."""

    id: str | None
    algorithm: str
    """Its only algorithm."""
    key: RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey = field(repr=False)


def keys_of(data: bytes) -> Sequence[WebKey]:
    """Return the usable keys of a JSON Web Key Set. Raises `KeysUnreadable`."""
    if len(data) > BYTES_MAX:
        raise KeysUnreadable(f"over {BYTES_MAX} bytes")
    try:
        decoded = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise KeysUnreadable("no JSON") from error
    listed = decoded.get("keys") if isinstance(decoded, dict) else None
    if not isinstance(listed, list):
        raise KeysUnreadable('no {"keys": […]}')
    if len(listed) > KEYS_MAX:
        raise KeysUnreadable(f"over {KEYS_MAX} keys")
    keys = [key for each in listed if (key := _key_of(each)) is not None]
    if not keys:
        raise KeysUnreadable("it has no key for RS256, ES256 or EdDSA")
    names = [key.id for key in keys if key.id is not None]
    if len(set(names)) < len(names):
        raise KeysUnreadable("two keys have the same id")
    return keys


def _key_of(entry: Any) -> WebKey | None:
    """Return a key, None if it is not usable."""
    if not isinstance(entry, dict) or entry.get("kty") not in ("RSA", "EC", "OKP"):
        return None
    name, uses = entry.get("kid"), entry.get("key_ops", ["verify"])
    if entry.get("use", "sig") != "sig" or not isinstance(uses, list) or "verify" not in uses:
        return None
    if not isinstance(name, str | None):
        return None
    public = {part: value for part, value in entry.items() if part not in _PRIVATE}
    try:
        key = jwt.PyJWK.from_dict({**public, "alg": _algorithm_of(public)}).key
    except Exception:  # Whatever is wrong with this key, others may be valid.
        return None
    algorithm = _fitting(key)
    if algorithm is None or entry.get("alg", algorithm) != algorithm:
        return None
    return WebKey(name, algorithm, key)


_PRIVATE = frozenset(("d", "p", "q", "dp", "dq", "qi", "oth"))
"""Parts of a private key. Nobody should publish one; if somebody does, it is not stored."""


def _algorithm_of(entry: dict[str, Any]) -> str:
    return {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA"}[entry["kty"]]


def _fitting(key: object) -> str | None:
    if isinstance(key, RSAPublicKey) and key.key_size >= _RSA_BITS_MIN:
        return "RS256"
    if isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        return "ES256"
    return "EdDSA" if isinstance(key, Ed25519PublicKey) else None


class WebKeys:
    """The keys of one source. Used from one event loop."""

    def __init__(
        self, source: str, clock: Clock, ca_file: str = "", every_s: float = EVERY_S
    ) -> None:
        """Use the keys in a file, or at an https:// URL.

        `ca_file` has the trusted certificates, in place of the machine's own; `every_s` is in
        seconds.
        """
        if "://" in source and not source.startswith(_HTTPS):
            raise ValueError(f"keys are taken from a file, or an {_HTTPS} URL")
        self._source = source
        self._clock = clock
        self._every_s = every_s
        self._keys: Sequence[WebKey] = ()
        self._is_failing = False
        self._asked_ms = _OLDEST
        self._following: asyncio.Task[None] | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._file = WatchedFile(source, BYTES_MAX)
        self._tls = None
        if source.startswith(_HTTPS):
            self._tls = ssl.create_default_context(cafile=ca_file or None)

    async def open(self) -> None:
        """Read the keys. Raises `KeysUnreadable` and `OSError` for a file, not for a URL."""
        if self._tls is None:
            self._keys = keys_of(self._file.read())
            return
        await self._fetch()
        name = f"fetching the keys of {self._source}"
        self._following = supervised(name, self._fetch_again_and_again)

    async def key(self, name: str | None) -> WebKey | None:
        """Return the key of an id, or the only one if no id is given; None if there is none."""
        if self._tls is None:
            self._read_changed()
            return self._known(name)
        key = self._known(name)
        if key is None and (name is not None or not self._keys) and self._may_ask():
            # Shielded, so a caller that stops waiting does not stop the fetch for others.
            await shared(self._fetched())
            key = self._known(name)
        return key

    async def close(self) -> None:
        """Stop fetching."""
        tasks = [task for task in (self._following, self._fetching) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _known(self, name: str | None) -> WebKey | None:
        if name is None:
            return self._keys[0] if len(self._keys) == 1 else None
        return next((key for key in self._keys if key.id == name), None)

    def _may_ask(self) -> bool:
        since_ms = self._clock.steady_ms() - self._asked_ms
        return self._fetching is not None or since_ms >= UNKNOWN_EVERY_MS

    def _fetched(self) -> "asyncio.Task[None]":
        """Return the fetch in progress, or a new one."""
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch())
            self._fetching.add_done_callback(self._end_fetch)
        return self._fetching

    def _end_fetch(self, _: "asyncio.Task[None]") -> None:
        self._fetching = None

    async def _fetch_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            await shared(self._fetched())

    async def _fetch(self) -> None:
        assert self._tls is not None
        self._asked_ms = self._clock.steady_ms()
        try:
            async with asyncio.timeout(FETCH_S_MAX):
                data = await _answer(self._source, self._tls)
            self._keys = keys_of(data)
        except Exception as error:  # Whatever the error, the earlier keys stay valid.
            self._failed(error)
        else:
            self._is_failing = False

    def _read_changed(self) -> None:
        if not self._file.has_changed():
            return
        try:
            self._keys = keys_of(self._file.read())
        except (OSError, KeysUnreadable) as error:
            self._failed(error)
        else:
            self._is_failing = False

    def _failed(self, error: Exception) -> None:
        if not self._is_failing:
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            message = without_credentials(f"{self._source}: {reason}")
            _log.warning("cannot read keys, so the earlier ones remain valid: %s", message)
        self._is_failing = True


async def _answer(url: str, tls: ssl.SSLContext) -> bytes:
    """Return what is at a URL, or at where that leads."""
    for _ in range(1 + _REDIRECTS_MAX):
        place = parse_url(url)
        if not place.is_secured:
            raise KeysUnreadable(f"redirected to {place.scheme}://, which anybody can change")
        way = Upstream(url, tls, proxy=proxy_of(place), takes_unframed=True)
        try:
            fields = _FIELDS + way.authorization
            answer = await way.send("GET", place.target, fields, None, is_counted=True)
            location = answer.value(b"location")
            if answer.status_code == _OK:
                return await _body_of(answer)
            if answer.status_code not in _REDIRECTED or location is None:
                raise KeysUnreadable(f"it answers {answer.status_code}")
        finally:
            way.close()
        url = urljoin(url, location.decode("ascii"))
    raise KeysUnreadable(f"over {_REDIRECTS_MAX} redirections")


async def _body_of(answer: Answer) -> bytes:
    """Return the body, as far as it may be long; one without a length is read to its end."""
    data = bytearray()
    try:
        async for part in answer:
            data += part
            if len(data) > BYTES_MAX:
                break
    except BrokenAnswer:
        if not answer.is_unframed:
            raise
    return bytes(data)
