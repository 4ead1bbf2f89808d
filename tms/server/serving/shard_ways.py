"""The ways to shards that other servers lead: who is asked there, and in whose name.

Lists and sums over all shards are asked for in the name of the caller, who may see no more there
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
    """The ways of one server to others. Used from its event loop."""

    def __init__(self, joined: Joined, places: Places[Shard]) -> None:
        """Have `places` know by what others are asked."""
        self._parts = joined.parts
        self._own = joined.presence.instance
        self._places = places
        self._ways: dict[int, tuple[str, str, list[RemoteServices]]] = {}
        """By shard: the address and boot of its leader, and what asks there."""
        self._closing: set[asyncio.Task[None]] = set()

    def heard(self, shard: int, address: str | None, boot: str) -> None:
        """Ask another leader of a shard from now on; None: nobody."""
        if address == self._own.address:
            address = None  # it is led here, or about to be
        known = self._ways.get(shard)
        if known is not None and known[:2] == (address, boot):
            return
        if known is not None:
            del self._ways[shard]
            for services in known[2]:
                closing = asyncio.create_task(services.close())
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
        if address is None:
            self._places.ask(shard, None, None)
            return
        as_caller = self._services(shard, address, boot, _asking)
        as_server = self._services(shard, address, boot, None)
        self._ways[shard] = address, boot, [as_caller, as_server]
        self._places.ask(shard, as_caller, as_server)

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
        """Ask nobody any more."""
        for shard in list(self._ways):
            self.heard(shard, None, "")
        await asyncio.gather(*self._closing, return_exceptions=True)


def _asking() -> Identity | None:
    """Return who asks now; None if nobody has said who it is."""
    caller = ASKING.get()
    return None if caller.principal is None else Identity(caller.principal, caller.groups)
