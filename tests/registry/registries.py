"""Registries on one log in this process, as the tests call them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.manual_clock import ManualClock
from tests.virtual_loop import VirtualLoop
from tms.core.limits import Limits, SchemaLimits
from tms.core.services.messaging import Messaging
from tms.core.services.schemas import SchemaReference, SubmittedSchema
from tms.core.values.message import FIRST_ID, Message
from tms.core.values.reading import Reading
from tms.core.values.topic import TopicId
from tms.registry import deletion, lookup
from tms.registry import setting_commands as settings
from tms.registry.checking.checker import ThreadChecker
from tms.registry.log.mastership import Mastership
from tms.registry.log.schema_log import SchemaLog, WayToLog
from tms.registry.log.service import Registry
from tms.registry.registration import Registered, SchemaToRegister, register
from tms.registry.state.ids import StoreIds
from tms.registry.state.refusal import RegistryError
from tms.server.node import OpenServices, open_services

NOW_MS = 1_700_000_000_000
TOPIC = TopicId("system", "_schemas")


def fixed(size: int) -> str:
    """Return a schema that differs for each size; no two of them are compatible."""
    return f'{{"type":"fixed","name":"F","size":{size}}}'


def record(*names: str) -> str:
    """Return a record whose fields all have defaults: any two are compatible."""
    fields = ",".join(f'{{"name":"{name}","type":"int","default":0}}' for name in names)
    return f'{{"type":"record","name":"R","fields":[{fields}]}}'


class Called:
    """One registry; its calls return a refusal as its code."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    async def _outcome(self, awaited: Any) -> Any:
        try:
            return await awaited
        except RegistryError as error:
            return error.code

    async def register(
        self,
        subject: str,
        text: str,
        references: Sequence[SchemaReference] = (),
        **others: Any,
    ) -> Registered | int:
        submitted = SubmittedSchema(text, references=tuple(references))
        request = SchemaToRegister(subject, submitted, **others)
        told: Registered | int = await self._outcome(
            self.registry.write(lambda known: register(known, request))
        )
        return told

    async def id_of(self, subject: str, text: str, **others: Any) -> int:
        registered = await self.register(subject, text, **others)
        assert isinstance(registered, Registered), registered
        return registered.id

    async def delete(self, subject: str, version: str | None = None, *, permanent: bool) -> Any:
        if version is None:
            return await self._outcome(
                self.registry.delete(
                    lambda known: deletion.delete_subject(known.state, subject, permanent=permanent)
                )
            )
        return await self._outcome(
            self.registry.delete(
                lambda known: deletion.delete_version(
                    known.state, subject, version, permanent=permanent
                )
            )
        )

    async def look_up(self, subject: str, text: str, *, deleted: bool = False) -> Any:
        found = await self._outcome(
            self.registry.examine(
                lambda known: lookup.same(known, subject, SubmittedSchema(text), deleted=deleted)
            )
        )
        return found if isinstance(found, int) else (found.number, found.id)

    async def list(self, look: Any) -> Any:
        return await self._outcome(self.registry.list(look))

    async def subjects(self, **asked: bool) -> Any:
        return await self.list(lambda state: lookup.subjects(state, ":*:", **asked))

    async def versions(self, subject: str, **asked: bool) -> Any:
        return await self.list(lambda state: lookup.versions(state, subject, **asked))

    async def text_of(self, schema_id: int) -> Any:
        return await self._outcome(
            self.registry.find(lambda state: lookup.version_of_id(state, schema_id, "").schema.text)
        )

    async def set_level(self, subject: str, level: str | None) -> Any:
        return await self._outcome(
            self.registry.write(
                lambda known: settings.set_config(known.state, subject, {"compatibility": level})
            )
        )

    async def set_mode(self, subject: str, mode: str, *, force: bool = False) -> Any:
        return await self._outcome(
            self.registry.write(
                lambda known: settings.set_mode(known.state, subject, mode, force=force)
            )
        )


class Registries:
    """Makes registries on one log."""

    def __init__(self, services: OpenServices, clock: ManualClock) -> None:
        self.services = services
        self.clock = clock

    def make(
        self,
        node: str | None = None,
        messaging: Messaging | None = None,
        limits: SchemaLimits | None = None,
        mastership: Callable[[SchemaLog], Mastership] | None = None,
        ids: StoreIds | None = None,
    ) -> Called:
        """Return a registry that has read nothing yet."""
        log = SchemaLog(WayToLog(messaging or self.services.messaging), TOPIC, self.clock)
        asked = None if mastership is None else mastership(log)
        registry = Registry(log, limits or SchemaLimits(), ThreadChecker(), asked, ids)
        if node is not None:
            registry.log._node = node
        return Called(registry)

    async def log(self) -> list[Message]:
        """Return the messages of the log."""
        blocks = self.services.messaging.poll(TOPIC, Reading(FIRST_ID, 100_000))
        return [message async for block in blocks for message in block]


@asynccontextmanager
async def opened(store: str = "memory:", limits: Limits | None = None) -> AsyncIterator[Registries]:
    """Open a store for registries."""
    clock = ManualClock(NOW_MS)
    services = await open_services(store, limits, clock=clock)
    loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualLoop):
        threads = services.messaging._writer._threads
        loop.hold_time_while(lambda: threads._writes.under_way + threads._reads.under_way)
    try:
        yield Registries(services, clock)
    finally:
        await services.close()
