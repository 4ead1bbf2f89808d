"""Names and passwords for Basic authentication, from a file of argon2id hashes.

    line := NAME ":" HASH [":" GROUP ("," GROUP)*] | "#" comment

1. The file is read again after a change. If it is invalid then, the former content stays in effect.
2. Verifying takes a tenth of a second and 64 MiB of memory, so two are verified at a time, in their
   own threads. A correct password is remembered for 60 s, as a keyed hash.
3. An unknown name takes as long as a wrong password, and gets the same answer.
4. From one address, 10 wrong passwords a minute are verified; further ones are refused without a
   check. IPv6 addresses count by their network (/64). One stranger is verified at a time, and eight
   may wait.
5. A password that was correct within a day never waits for strangers: it uses the second thread,
   has its own queue, and is verified even if its address is blocked. Nobody without the password
   can use that.
"""

import asyncio
import base64
import hashlib
import hmac
import logging
import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Never

import argon2
from cachetools import LRUCache, TTLCache

from tms.core.errors import NotAuthenticated, RateExceeded
from tms.core.runtime.clock import Clock
from tms.core.runtime.rates import Rate, in_seconds
from tms.core.runtime.shared_work import shared
from tms.core.text.hosts import network_of
from tms.security.credentials import Scheme, Verified
from tms.security.principals import checked_identity
from tms.security.rules import Identity
from tms.security.watched_file import WatchedFile

PASSWORD_BYTES_MAX = 256
FILE_BYTES_MAX = 16 * 1024 * 1024
THREADS = 2
STRANGERS_AT_ONCE = 1
WAITING_MAX = 8
LATELY_MS = 24 * 3600 * 1000
REMEMBERED_MS = 60_000
REMEMBERED_MAX = 10_000
FAILURES_PER_MINUTE = 10
ADDRESSES_MAX = 10_000
_MINUTE_MS = 60_000
_SETTING = "auth_passwords"
_MEMORY_KIB_MAX = 1024 * 1024
_WRONG = "the name or the password is wrong"

_hasher = argon2.PasswordHasher()
_log = logging.getLogger(__name__)


class PasswordsUnreadable(ValueError):
    """Raised for an invalid file of passwords; it names the line."""


@dataclass(frozen=True, slots=True)
class KnownName:
    """The entry of one name, without the password."""

    identity: Identity
    hash: str = field(repr=False)


def hash_password(password: str) -> str:
    """Return the stored hash of a password. Raises `ValueError` if it is not valid."""
    if not 0 < len(password.encode()) <= PASSWORD_BYTES_MAX:
        raise ValueError(f"a password has 1 to {PASSWORD_BYTES_MAX} bytes")
    return _hasher.hash(password)


def names_of(data: bytes) -> Mapping[str, KnownName]:
    """Return the entries of a file, by name. Raises `PasswordsUnreadable`."""
    if len(data) > FILE_BYTES_MAX:
        raise PasswordsUnreadable(f"over {FILE_BYTES_MAX} bytes")
    names: dict[str, KnownName] = {}
    for number, line in enumerate(data.split(b"\n"), 1):
        text = line.strip()
        if not text or text.startswith(b"#"):
            continue
        try:
            known = _known(text.decode())
        except (NotAuthenticated, ValueError) as error:
            reason = error.detail["reason"] if isinstance(error, NotAuthenticated) else error
            raise PasswordsUnreadable(f"line {number}: {reason}") from None
        if known.identity.principal in names:
            raise PasswordsUnreadable(f"line {number}: the name occurs twice")
        names[known.identity.principal] = known
    return names


def _known(line: str) -> KnownName:
    """Return the entry in one line. Raises `ValueError`, `NotAuthenticated`."""
    name, *others = line.split(":")
    if len(others) not in (1, 2):
        raise ValueError("write NAME:HASH or NAME:HASH:GROUP,GROUP")
    groups = others[1].split(",") if others[1:] else []
    try:
        cost = argon2.extract_parameters(others[0])
    except argon2.exceptions.InvalidHash:
        raise ValueError("the hash is not valid; `tms auth password` makes one") from None
    if cost.type is not argon2.Type.ID or cost.memory_cost > _MEMORY_KIB_MAX:
        raise ValueError(f"the hash is not an argon2id hash, or takes over {_MEMORY_KIB_MAX} KiB")
    return KnownName(checked_identity(name, groups), others[0])


class PasswordVerifier:
    """Verifies names and passwords from a file. Used from one event loop; `close` it."""

    def __init__(self, file: str, clock: Clock) -> None:
        """Read the file. Raises `PasswordsUnreadable`, `OSError`."""
        self._file = WatchedFile(file, FILE_BYTES_MAX)
        self._clock = clock
        self._names = names_of(self._file.read())
        self._pool = ThreadPoolExecutor(THREADS, "password")
        self._key = secrets.token_bytes(32)
        self._remembered: TTLCache[bytes, Verified] = TTLCache(
            REMEMBERED_MAX, REMEMBERED_MS, timer=clock.steady_ms
        )
        self._right_lately: TTLCache[bytes, None] = TTLCache(
            REMEMBERED_MAX, LATELY_MS, timer=clock.steady_ms
        )
        self._failures: LRUCache[str, Rate] = LRUCache(ADDRESSES_MAX)
        self._verifying: dict[bytes, asyncio.Task[Verified]] = {}
        self._strangers = 0
        """How many verifications run or wait for callers without a recent correct password."""
        self._strangers_turn = asyncio.Semaphore(STRANGERS_AT_ONCE)

    async def verify(self, basic_value: str, address: str) -> Verified:
        """Return the caller in the text after Basic; `address` is the caller's IP address.

        The result ends within 60 s and must then be verified again. Raises `NotAuthenticated`
        (credentials_invalid), and `RateExceeded` (principal_rate_exceeded).
        """
        self._read_changed()
        name, password = _name_and_password(basic_value)
        key = hmac.digest(self._key, basic_value.encode(), hashlib.sha256)
        remembered = self._remembered.get(key)
        if remembered is not None:
            return remembered
        task = self._verifying.get(key)
        if task is None:
            if key in self._right_lately:
                verifying = self._verify(key, name, password)
            else:
                self._check_room()
                verifying = self._verify_stranger(key, name, password, self._take_failure(address))
                self._strangers += 1
            task = self._verifying[key] = asyncio.create_task(verifying)
            task.add_done_callback(lambda ended: self._end(key, ended))
        # Shielded: the thread continues without waiters, and others may wait for the same.
        return await shared(task)

    async def close(self) -> None:
        """Stop verifying."""
        await asyncio.gather(*self._verifying.values(), return_exceptions=True)
        self._pool.shutdown()

    def _end(self, key: bytes, task: "asyncio.Task[Verified]") -> None:
        self._verifying.pop(key, None)
        if not task.cancelled():
            task.exception()  # The waiters get the error.

    async def _verify_stranger(
        self, key: bytes, name: str, password: bytes, failures: Rate
    ) -> Verified:
        try:
            async with self._strangers_turn:
                verified = await self._verify(key, name, password)
        finally:
            self._strangers -= 1
        failures.give_back(1, self._clock.steady_ms())
        return verified

    async def _verify(self, key: bytes, name: str, password: bytes) -> Verified:
        names = self._names
        # An unknown name is verified by another's hash, so it takes as long.
        cached = names.get(name)
        verified_by = cached or next(iter(names.values()), None)
        if verified_by is None:
            _refuse(_WRONG)
        loop = asyncio.get_running_loop()
        is_right = await loop.run_in_executor(self._pool, _is_right, verified_by.hash, password)
        if cached is None or not is_right:
            self._right_lately.pop(key, None)
            _refuse(_WRONG)
        ends_ms = self._clock.steady_ms() + REMEMBERED_MS
        verified = Verified(cached.identity, None, Scheme.BASIC, ends_ms)
        if names is self._names:
            self._remembered[key] = verified
            self._right_lately[key] = None
        return verified

    def _check_room(self) -> None:
        if self._strangers >= STRANGERS_AT_ONCE + WAITING_MAX:
            reason = f"{WAITING_MAX} passwords are waiting to be verified"
            raise RateExceeded(
                "principal_rate_exceeded", setting=_SETTING, retry_after_s=1, reason=reason
            )

    def _take_failure(self, address: str) -> Rate:
        """Count a failure of an address in advance; it is undone on success."""
        network, now_ms = network_of(address), self._clock.steady_ms()
        failures = self._failures.get(network)
        if failures is None:
            failures = self._failures[network] = Rate(FAILURES_PER_MINUTE, _MINUTE_MS)
        wait_ms = failures.wait_ms(1, now_ms)
        if wait_ms > 0:
            raise RateExceeded(
                "principal_rate_exceeded",
                setting=_SETTING,
                retry_after_s=in_seconds(wait_ms),
                reason=f"{FAILURES_PER_MINUTE} passwords from this address were wrong within a "
                "minute",
            )
        failures.take(1, now_ms)
        return failures

    def _read_changed(self) -> None:
        if not self._file.has_changed():
            return
        try:
            self._names = names_of(self._file.read())
        except (OSError, PasswordsUnreadable) as error:
            _log.warning(
                "%s is not valid, so its earlier content still applies: %s", self._file.path, error
            )
            return
        self._remembered.clear()


def _name_and_password(basic_value: str) -> tuple[str, bytes]:
    """Return the name and the password in the text after Basic."""
    try:
        data = base64.b64decode(basic_value, validate=True)
        name, colon, password = data.partition(b":")
        text = name.decode()
    except ValueError:
        _refuse("the text after Basic is not the base64 of a name and a password in UTF-8")
    if not colon:
        _refuse("the text after Basic has no colon between name and password")
    if len(password) > PASSWORD_BYTES_MAX:
        _refuse(f"a password must not have more than {PASSWORD_BYTES_MAX} bytes")
    return text, password


def _is_right(hashed: str, password: bytes) -> bool:
    """Whether a password matches a hash. It runs in a thread."""
    try:
        return _hasher.verify(hashed, password)
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHash):
        return False


def _refuse(reason: str) -> Never:
    raise NotAuthenticated("credentials_invalid", reason=reason)
