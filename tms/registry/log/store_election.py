"""Elects a master by a metadata store: the first server to write the ephemeral value wins."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from tms.coordination import CoordinationService, LeaderElection, LeaderState
from tms.core.errors import TmsError
from tms.core.runtime.supervision import supervised
from tms.metadata.following import Following, always
from tms.metadata.interface import MetadataStore
from tms.registry.log.mastership import Elected

_GIVEN_WAY_S = 2.0
_log = logging.getLogger(__name__)


class StoreElection:
    """One server's part in the election at `…/schema_registry_master`."""

    def __init__(
        self, store: MetadataStore, namespace: str, address: str, *, is_eligible: bool
    ) -> None:
        """Do not take part yet. The value is the master's URL."""
        self._store = store
        self._service = CoordinationService(store)
        self._path = f"{namespace}/schema_registry_master"
        self._address = address
        self._is_eligible = is_eligible
        self._gives_way = asyncio.Event()
        self._state = LeaderState.NO_LEADER
        self._following: Following | None = None
        self._taking_part: asyncio.Task[None] | None = None

    def start(self, tell: Callable[[Elected], None]) -> None:
        """Take part, and report each change from now on."""
        self._following = Following(
            self._store,
            self._path,
            "watching who is the registry's master",
            partial(self._look, tell),
            happen=always,
        )
        self._following.wake()
        self._following.start()
        if self._is_eligible:
            election = self._service.election(self._path, self._become)
            take_part = partial(self._take_part, election)
            self._taking_part = supervised("taking part in the election of a master", take_part)

    async def _take_part(self, election: LeaderElection) -> None:
        while True:
            await election.elect(self._address.encode())
            await self._gives_way.wait()
            self._gives_way.clear()
            try:
                await election.close()
            except TmsError as error:
                _log.warning("not released, but it will end with the session: %s", error)
            await asyncio.sleep(_GIVEN_WAY_S)

    def give_way(self) -> None:
        """Let another server win, and then take part again."""
        self._gives_way.set()

    def _become(self, state: LeaderState) -> None:
        self._state = state
        if self._following is not None:
            self._following.wake()

    async def _look(self, tell: Callable[[Elected], None]) -> None:
        if self._state is LeaderState.LEADING:
            tell(Elected(self._address, is_self=True))
            return
        try:
            stored = await self._store.get(self._path)
        except BaseException:
            tell(Elected(None))
            raise
        address = None if stored is None else stored.value.decode(errors="replace")
        # Its own value exists a moment before it is known to have won, and after.
        tell(Elected(None if address == self._address else address))

    async def close(self) -> None:
        """Stop taking part."""
        if self._following is not None:
            await self._following.close()
        if self._taking_part is not None:
            self._taking_part.cancel()
            await asyncio.gather(self._taking_part, return_exceptions=True)
        await self._service.close()
