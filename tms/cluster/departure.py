"""The last server of a cluster frees the store, so that a single server can open it.

Each server announces that it stops before it reads which others remain. So of servers that are
stopped together at least one knows that no other will lead the store, and that one frees it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tms.cluster.instances import instances_of, is_last
from tms.cluster.lease import RENEWALS, LeaseRecord
from tms.core.errors import TmsError
from tms.metadata.interface import MetadataStore

Free = Callable[[int], object]
"""Deletes the marks of leaders up to a token from the store. Blocks, in any thread. Raises
`TmsError`.
"""
_LEASES = 2
"""The number of leases to wait until another stopping server has closed the store."""

_log = logging.getLogger(__name__)


async def free_if_last(
    store: MetadataStore,
    own: LeaseRecord,
    read: Callable[[], Awaitable[LeaseRecord | None]],
    free: Free,
) -> None:
    """Free the store if no other server will lead it, once its leader has closed it.

    `own` identifies the stopping server, and `read` returns the lease. A failure is logged.
    """
    if not await is_last(store, own.holder, own.lease_s):
        return
    try:
        async with asyncio.timeout(_LEASES * own.lease_s):
            while (record := await read()) is not None and not record.is_released:
                registered = [each.id for each in await instances_of(store)]
                if record.holder == own.holder or record.holder not in registered:
                    break  # the leader died, or could not close the store
                await asyncio.sleep(own.lease_s / RENEWALS)
        if record is not None and await is_last(store, own.holder, own.lease_s):
            await asyncio.to_thread(free, record.token)
    except (TmsError, TimeoutError) as error:
        _log.warning(
            "%s may still be in use by the cluster (see `tms cluster release`): %s",
            own.store,
            error,
        )
