"""Chooses the master: the one server that writes the log.

1. A server wins an election (`Election`): by the metadata store, or among the members.
2. It starts by writing the epoch, a record at the end of the log. Later writes of an earlier master
   are refused (`if_last`); it reads on, finds the epoch, and is no longer master.
3. So two servers may believe that they are the master, but only the one with the newest epoch
   writes.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from tms.core.runtime.supervision import supervised
from tms.registry.log.schema_log import SchemaLog
from tms.registry.log.service import Registry
from tms.registry.state.refusal import RegistryError

REFRESH_S = 0.05
"""How often other servers than the master read the log."""
MASTER_LOOKS_S = 1.0
"""How often a master checks whether it still reaches the log."""
RETRY_S = 0.3
AGAIN_S = 3.0
"""How long a server that lost mastership but is still elected waits before it starts again."""

_log = logging.getLogger(__name__)


class Elected(NamedTuple):
    """The result of an election."""

    address: str | None
    """The URL of the winner's registry; None without a winner."""
    is_self: bool = False


class Election(Protocol):
    """Elects a master among servers."""

    def start(self, tell: Callable[[Elected], None]) -> None:
        """Take part, and report each change from now on."""
        ...

    def give_way(self) -> None:
        """Let another server win, because this one cannot reach the log."""
        ...

    async def close(self) -> None:
        """Stop taking part."""
        ...


class Mastership:
    """The role of this server among those of its log. Used only on one event loop."""

    def __init__(
        self, log: SchemaLog, election: Election, address: str, *, is_eligible: bool
    ) -> None:
        """Do not take part yet. Others reach this server's registry at the URL `address`."""
        self.address = address
        self.is_eligible = is_eligible
        self.begun = 0
        """How often this server became the master."""
        self._log = log
        self._election = election
        self._elected = Elected(None)
        self._knows_election = False
        """Whether any server has ever won, as far as this server knows."""
        self._epoch: int | None = None
        """The epoch in which this server is the master."""
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.on_master: list[Callable[[], None]] = []
        """Called when `master` may have changed."""

    @property
    def is_master(self) -> bool:
        """Whether this server is the writer, as far as it knows."""
        return self._epoch is not None and self._epoch == self._log.memory.state.epoch

    @property
    def master(self) -> str | None:
        """The URL of the master, possibly this server's own; None if unknown.

        A server that cannot win, and knows no election, uses the master in the log, so a server
        with a copy of the log forwards to the primary site.
        """
        if self._elected.address is not None or self._knows_election:
            return self._elected.address
        named = self._log.memory.state.master
        return named if named and not self.is_eligible and named != self.address else None

    def may_write(self) -> bool:
        """Whether this server writes; if the log has a newer epoch, it is no longer master."""
        if self._epoch is not None and not self.is_master:
            newer = self._log.memory.state.epoch
            _log.warning(
                "no longer master: the log is at epoch %d, ours was %d", newer, self._epoch
            )
            self._epoch = None
            asyncio.get_running_loop().call_later(AGAIN_S, self._changed.set)
        return self._epoch is not None

    # Elections.

    def take_part(self, registry: Registry) -> None:
        """Take part in the election, for the registry that uses this mastership."""
        self._tasks = [
            supervised("beginning as the registry's master", partial(self._work, registry)),
            supervised("reading the log of schemas", self._read_on),
        ]
        self._election.start(self._heard)

    def _heard(self, elected: Elected) -> None:
        if elected == self._elected:
            return
        self._elected = elected
        self._knows_election |= elected.address is not None
        if not elected.is_self:
            self._epoch = None
        _log.info("the master is %s", "this server" if elected.is_self else elected.address)
        self._changed.set()
        for callback in self.on_master:
            callback()

    async def _work(self, registry: Registry) -> None:
        """Start as the master whenever this server wins."""
        while True:
            self._changed.clear()
            while self._elected.is_self and not self.is_master:
                try:
                    epoch = await registry.begin_epoch(self.address)
                except RegistryError as error:
                    _log.warning("cannot start as master yet: %s", error)
                    await asyncio.sleep(RETRY_S)
                    continue
                if self._elected.is_self:
                    self._epoch = epoch
                    self.begun += 1
                    _log.info("master from now on, with epoch %d", epoch)
            await self._changed.wait()

    async def _read_on(self) -> None:
        """Keep reading the log. A master that cannot reach it gives way."""
        while True:
            await asyncio.sleep(MASTER_LOOKS_S if self.is_master else REFRESH_S)
            try:
                await self._log.read_to_end()
            except Exception as error:
                if self._elected.is_self:
                    _log.warning("the log is unreachable, so another server may be the master")
                    self._election.give_way()
                if not isinstance(error, RegistryError):
                    raise
                await asyncio.sleep(RETRY_S)

    async def close(self) -> None:
        """Give up mastership, so that another server can win."""
        self._epoch = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._election.close()
