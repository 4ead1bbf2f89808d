"""A server's services, over one set of connections (`server_services.Services`)."""

from tms.client.remote.access import ANYBODY, Access
from tms.client.remote.calls import Calls
from tms.client.remote.http import Http
from tms.client.remote.remote_groups import RemoteGroups
from tms.client.remote.remote_messaging import RemoteMessaging
from tms.client.remote.remote_namespaces import RemoteNamespaces
from tms.client.remote.remote_ranges import RemoteRanges
from tms.client.remote.remote_schedules import RemoteSchedules
from tms.client.remote.remote_schemas import RemoteSchemas
from tms.client.remote.remote_subscriptions import RemoteSubscriptions
from tms.client.remote.remote_transactions import RemoteTransactions
from tms.core.text.durations import Duration, seconds_of


class RemoteServices:
    """The services of the server at a URL."""

    def __init__(
        self,
        url: str,
        *,
        timeout_s: Duration,
        retry_for_s: Duration,
        compress: bool,
        access: Access = ANYBODY,
        shard: int | None = None,
        direct: bool = False,
    ) -> None:
        """Make no connection yet. With a `shard`, lists and sums cover only that one.

        With `direct`, also ask leaders that `url` does not name. Raises as `Http`.
        """
        self._http = Http(
            url,
            timeout_s=seconds_of(timeout_s),
            compress=compress,
            access=access,
            direct=direct,
        )
        calls = Calls(self._http, seconds_of(retry_for_s), shard)
        self.messaging = RemoteMessaging(calls)
        self.transactions = RemoteTransactions(calls)
        self.subscriptions = RemoteSubscriptions(calls)
        self.groups = RemoteGroups(calls)
        self.schedules = RemoteSchedules(calls)
        self.ranges = RemoteRanges(calls)
        self.namespaces = RemoteNamespaces(calls)
        self.schemas = RemoteSchemas(calls)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()
