"""Metadata stores in this process's memory, by name: for tests, and for one process by itself.

Each opening of a name is a session of its own with the same values, which are gone with the last
session. The name `local` is a new store for each opening, as in Pulsar.
"""

from weakref import WeakValueDictionary

from tms.core.runtime.clock import Clock
from tms.metadata.host import MetadataHost
from tms.metadata.local import LocalSession

PRIVATE = "local"

_hosts: WeakValueDictionary[str, MetadataHost] = WeakValueDictionary()
"""Its sessions keep each host alive."""


def open_memory(name: str = PRIVATE, clock: Clock | None = None) -> LocalSession:
    """Return a new session with the store `name`, created if no other session has it."""
    host = _hosts.get(name)
    if name == PRIVATE or host is None or not host.has_sessions:
        host = MetadataHost(clock=clock)
        if name != PRIVATE:
            _hosts[name] = host
    return host.open_session()
