"""The format of the store that a cluster shares: raised when all servers know the later format.

A server says in its entry which format and which features it knows. The leader reads the entries on
a period; when all registered servers know the present format, it records that in the store, once.
The store then refuses older versions. A format with features is recorded when the first one is used
(`tms.messaging.features`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from tms.core.errors import TmsError
from tms.core.runtime.supervision import supervised
from tms.core.services.cluster import Instance

RAISED_FORMAT = 2
"""The format of stores on HBase without features (`tables.hbase.layout`)."""
STORE_FORMAT = RAISED_FORMAT + 1
"""The newest format that this version knows: the one with features."""
_LOOK_S = 30.0

_log = logging.getLogger(__name__)


async def raise_when_all_know(
    instances: Callable[[], Awaitable[Sequence[Instance]]],
    raise_format: Callable[[], Awaitable[None]],
    *,
    look_s: float = _LOOK_S,
) -> None:
    """Call `raise_format` once all `instances` know the present format.

    Reads them every `look_s` seconds, and continues if the store or the metadata store is away.
    """
    while True:
        try:
            if all(instance.store_format >= RAISED_FORMAT for instance in await instances()):
                await raise_format()
                return
        except TmsError as error:
            _log.warning("cannot upgrade the store's format yet: %s", error)
        await asyncio.sleep(look_s)


def raising_when_all_know(
    instances: Callable[[], Awaitable[Sequence[Instance]]],
    raise_format: Callable[[], Awaitable[None]],
) -> "asyncio.Task[None]":
    """Return a task that runs `raise_when_all_know`."""
    return supervised(
        "raising the store's format", partial(raise_when_all_know, instances, raise_format)
    )
