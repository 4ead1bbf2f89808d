"""Access to shards that other servers lead: their services, and in whose name they are called.

Lists and sums over all shards are requested in the name of the caller, who may see no more there
than here. The registry and the audit reach their topics in the name of this server.
"""

import asyncio
from collections.abc import Callable

from tms.client.remote.access import Access
from tms.client.remote.remote_services import RemoteServices
from tms.core.values.caller import ASKING
from tms.registry.log.schema_log import REACHED_S_MAX
from tms.security.rules import Identity
from tms.server.security_part import Signing
from tms.server.serving.parts import Joined
from tms.server.shard import Shard
from tms.sharding.places import Places


class ShardWays:
    """One server's access to others. Used from its event loop."""

    def __init__(self, joined: Joined, places: Places[Shard]) -> None:
        """Put the services of other leaders into `places`."""
        self._parts = joined.parts
        self._own = joined.presence.instance
        self._places = places
        self._ways: dict[int, tuple[str, str, list[RemoteServices]]] = {}
        """By shard: the address and boot of its leader, and its services."""
        self._closing: set[asyncio.Task[None]] = set()

    def heard(self, shard: int, address: str | None, boot: str) -> None:
        """Use another leader of a shard from now on; None if no leader is known."""
        if address == self._own.address:
            address = None  # this server leads it, or is about to
        present = self._ways.get(shard)
        if present is not None and present[:2] == (address, boot):
            return
        if present is not None:
            del self._ways[shard]
            for services in present[2]:
                closing = asyncio.create_task(services.close())
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
        if address is None:
            self._places.set_remote(shard, None, None)
            return
        as_caller = self._services(shard, address, boot, _asking)
        as_server = self._services(shard, address, boot, None)
        self._ways[shard] = address, boot, [as_caller, as_server]
        self._places.set_remote(shard, as_caller, as_server)

    def _services(
        self, shard: int, address: str, boot: str, who: Callable[[], Identity | None] | None
    ) -> RemoteServices:
        security, settings = self._parts.security, self._parts.settings
        signing = None
        if security is not None and security.sealer is not None:
            signing = Signing(security.sealer, address, boot, who)
        access = Access(
            None, self._parts.tls.to_others, signing, allow_plaintext=settings.allow_plaintext
        )
        return RemoteServices(
            address,
            timeout_s=REACHED_S_MAX,
            retry_for_s=0,
            compress=False,
            access=access,
            shard=shard,
        )

    async def close(self) -> None:
        """Stop calling other servers."""
        for shard in list(self._ways):
            self.heard(shard, None, "")
        await asyncio.gather(*self._closing, return_exceptions=True)


def _asking() -> Identity | None:
    """Return the present caller; None if it is not authenticated."""
    caller = ASKING.get()
    return None if caller.principal is None else Identity(caller.principal, caller.groups)
