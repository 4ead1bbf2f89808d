"""A process that leads and writes under its token, for as long as it lives: URL NAME.

It does not check whether it still holds the lock: its target must refuse it. It prints a line for
each token that it writes under, and for each refusal.
"""

import asyncio
import sys
from contextlib import suppress
from dataclasses import dataclass, field

from tests.waiting import WAIT_S_MAX, until
from tms.coordination import CoordinationService, ResourceLock
from tms.core.errors import BadVersion, Unavailable
from tms.metadata.cache import JsonCodec, MetadataCache
from tms.server.stores import open_metadata

LOCK, GUARDED = "/lock", "/guarded"


@dataclass
class Guarded:
    """The thing that the lock guards: its last writer with the token, and the one before."""

    token: int
    writes: int
    history: list[tuple[int, str]] = field(default_factory=list)


class Stale(Exception):
    """Raised for a token that is smaller than an earlier one."""


async def write(cache: MetadataCache[Guarded], lock: ResourceLock, name: str) -> None:
    token = lock.token

    def changed(old: Guarded | None) -> Guarded:
        new = old or Guarded(0, 0)
        if new.token > token:
            raise Stale
        if not new.history or new.history[-1] != (token, name):
            new.history.append((token, name))
        return Guarded(token, new.writes + 1, new.history)

    await cache.read_modify_update_or_create(GUARDED, changed)


async def main(url: str, name: str) -> None:
    store = await open_metadata(url)
    service = CoordinationService(store)
    cache = MetadataCache(store, JsonCodec(Guarded))

    async def has_written() -> bool:
        with suppress(Unavailable, BadVersion):
            await write(cache, lock, name)
            return True
        return False

    while True:
        lock = await service.become_leader(LOCK, name.encode())
        print("leads", lock.token, flush=True)  # noqa: T201  for the test
        with suppress(Stale):
            while True:
                await until(has_written)
        print("refused", flush=True)  # noqa: T201  as above
        await asyncio.wait([lock.expired], timeout=WAIT_S_MAX)
        await lock.release()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
