"""The last server of a cluster frees the store, so that a server alone can open it.

Each server says that it stops before it looks who else is left. So of servers that are stopped
together at least one knows that no other will lead the store, and it frees what they did not.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tms.cluster.instances import instances_of, is_last
from tms.cluster.lease import RENEWALS, LeaseRecord
from tms.core.errors import TmsError
from tms.metadata.interface import MetadataStore

Free = Callable[[int], object]
"""Takes away what says that leaders up to a token have the store. Blocks, in any thread. Raises
`TmsError`."""
_LEASES = 2
"""For how many leases to wait until another server that stops has closed the store."""

_log = logging.getLogger(__name__)


async def free_if_last(
    store: MetadataStore,
    own: LeaseRecord,
    read: Callable[[], Awaitable[LeaseRecord | None]],
    free: Free,
) -> None:
    """Free the store if no other server is to lead it, once its leader has closed it.

    `own` says who stops, and `read` returns the lease. A failure is logged.
    """
    if not await is_last(store, own.holder, own.lease_s):
        return
    try:
        async with asyncio.timeout(_LEASES * own.lease_s):
            while (record := await read()) is not None and not record.is_released:
                known = [each.id for each in await instances_of(store)]
                if record.holder == own.holder or record.holder not in known:
                    break  # it died, or could not close the store
                await asyncio.sleep(own.lease_s / RENEWALS)
        if record is not None and await is_last(store, own.holder, own.lease_s):
            await asyncio.to_thread(free, record.token)
    except (TmsError, TimeoutError) as error:
        _log.warning(
            "%s may still be in use by the cluster (see `tms cluster release`): %s",
            own.store,
            error,
        )
