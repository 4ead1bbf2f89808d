"""Parts that raise, in one call, an error that no real part raises."""

import inspect
from collections.abc import AsyncIterator
from typing import Any

from tests.registry.elected_by_hand import Server
from tests.registry.registries import Registries
from tms.metadata.host import MetadataHost
from tms.metadata.local import LocalSession
from tms.registry.log.schema_log import WayToLog


class Breaking:
    """Wraps a part; the next call of a chosen method raises."""

    def __init__(self, inner: object) -> None:
        self._inner = inner
        self.faults: dict[str, BaseException] = {}
        self.raised = 0

    def _raise(self, name: str) -> None:
        fault = self.faults.pop(name, None)
        if fault is not None:
            self.raised += 1
            raise fault

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)

        async def wait(*arguments: Any, **named: Any) -> Any:
            self._raise(name)
            return await found(*arguments, **named)

        async def give(*arguments: Any, **named: Any) -> AsyncIterator[Any]:
            self._raise(name)
            async for each in found(*arguments, **named):
                yield each

        def tell(*arguments: Any, **named: Any) -> Any:
            self._raise(name)
            return found(*arguments, **named)

        if inspect.iscoroutinefunction(found):
            return wait
        if inspect.isasyncgenfunction(found):
            return give
        return tell if callable(found) else found


class Parts:
    """The parts that tasks depend on, and the error that one call is to raise."""

    def __init__(self, registries: Registries, fault: BaseException) -> None:
        self.registries = registries
        self.fault = fault
        self.host = MetadataHost()
        self.other = self.host.open_session()
        self.session: LocalSession = self.host.open_session()
        self.store: Any = Breaking(self.session)
        self.messaging: Any = Breaking(registries.services.messaging)

    def server(self, name: str) -> Server:
        server = Server(self.registries, name)
        server.called.registry.log._way = WayToLog(self.messaging)
        return server
