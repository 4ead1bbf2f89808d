"""The keys by which servers of a cluster know each other's forwards, in the metadata store.

They are one value at `/auth/forward_keys`: a JSON list, newest first, of `id`, `secret` (32 random
bytes in base64) and `made_ms`. Anybody who can read the metadata store can forward any name.

1. A server that finds no key creates the first one. One that finds the newest older than 24 h adds
   another before it; if two do so, the second uses the key of the first.
2. The last three are valid. A key seals forwards once it is 60 s old, when all servers know it.
3. The store reports changes made elsewhere, after a lost connection when it is restored. While the
   store cannot be reached, the last known keys stay valid.
"""

import logging
import re
import secrets
from collections.abc import Sequence

import msgspec

from tms.core.errors import BadVersion, ValueUnreadable
from tms.core.runtime.clock import Clock
from tms.metadata.following import Following
from tms.metadata.interface import NEW, MetadataStore
from tms.metadata.patience import once_reached

PATH = "/auth/forward_keys"
KEPT = 3
OLD_MS = 24 * 3600 * 1000
HEARD_MS = 60_000
"""The age at which each server knows a key."""
_SECRET_BYTES = 32
_ID = re.compile(r"[0-9a-z]{1,32}", re.ASCII)

_log = logging.getLogger(__name__)


class _Key(msgspec.Struct, frozen=True):
    """One stored key. Its secret is never shown."""

    id: str
    secret: bytes
    made_ms: int

    def __repr__(self) -> str:
        """Return it without the secret."""
        return f"_Key({self.id})"


class ForwardKeys:
    """The keys of a cluster, as one server has them. Used from one event loop."""

    def __init__(self, store: MetadataStore, clock: Clock) -> None:
        """Use the keys in `store`, which stays open; call `open` first."""
        self._store = store
        self._clock = clock
        self._keys: Sequence[_Key] = ()
        self._following = Following(store, PATH, "renewing the keys of forwards", self._renew)

    async def open(self) -> None:
        """Read the keys, and follow changes; waits for a store that is away.

        Raises `ValueUnreadable`.
        """
        await once_reached(self._bring_up_to_date)
        self._following.start()

    def sealing(self) -> tuple[str, bytes]:
        """Return the id and secret of the key to seal with; start the replacement of an old one."""
        now_ms = self._clock.now_ms()
        if _is_due(self._keys, now_ms):
            self._following.wake()
        heard = (key for key in self._keys if now_ms - key.made_ms > HEARD_MS)
        key = next(heard, self._keys[-1])
        return key.id, key.secret

    def valid(self, key_id: str) -> bytes | None:
        """Return the secret of a valid key; None if there is none with this id."""
        return next((key.secret for key in self._keys if key.id == key_id), None)

    async def close(self) -> None:
        """Stop following changes."""
        await self._following.close()

    async def _renew(self) -> None:
        try:
            await self._bring_up_to_date()
        except ValueUnreadable as error:  # it is read again after a change
            _log.warning("cannot renew the keys for forwarded requests: %s", error)

    async def _bring_up_to_date(self) -> None:
        """Read the keys, and add another before them if that is due."""
        while True:
            stored = await self._store.get(PATH)
            keys = () if stored is None else _decoded(stored.value)
            if keys:
                self._keys = keys
            now_ms = self._clock.now_ms()
            if not _is_due(keys, now_ms):
                return
            keys = (_new_key(now_ms), *keys)[:KEPT]
            try:
                version = NEW if stored is None else stored.stat.version
                await self._store.put(PATH, msgspec.json.encode(keys), version)
            except BadVersion:
                continue  # Another server was faster: use its keys.
            self._keys = keys
            return


def _is_due(keys: Sequence[_Key], now_ms: int) -> bool:
    """Whether a newer key is due. A key of a server whose clock is ahead is not replaced early."""
    return not keys or now_ms - keys[0].made_ms >= OLD_MS


def _new_key(now_ms: int) -> _Key:
    return _Key(secrets.token_hex(8), secrets.token_bytes(_SECRET_BYTES), now_ms)


def _decoded(data: bytes) -> tuple[_Key, ...]:
    try:
        keys = msgspec.json.decode(data, type=tuple[_Key, ...])
    except ValueError as error:
        raise ValueUnreadable(path=PATH, reason=str(error)) from error
    if any(len(key.secret) != _SECRET_BYTES or not _ID.fullmatch(key.id) for key in keys):
        raise ValueUnreadable(
            path=PATH, reason=f"a key needs an id of 0-9 and a-z, and {_SECRET_BYTES} bytes"
        )
    return keys[:KEPT]
