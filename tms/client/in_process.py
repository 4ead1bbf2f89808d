"""A client of a store in this process, opened in the event loop of a bridge's thread."""

from tms.client.async_client import AsyncClient, connect_embedded
from tms.client.embedded import REFUSAL_IN_CHILD
from tms.client.threads.bridge import Bridge
from tms.core.text.durations import Duration
from tms.core.values.store_access import StoreAccess


def open_in_thread(
    url: str, namespace: str, access: StoreAccess = StoreAccess.CREATE, *, retry_for_s: Duration
) -> tuple[AsyncClient, Bridge]:
    """Return the client and its bridge, which closes it. Raises as `connect_embedded`."""
    bridge = Bridge()
    connected: list[AsyncClient] = []

    async def connect_in_loop() -> None:
        client = await connect_embedded(url, namespace, retry_for_s=retry_for_s, access=access)
        bridge.close_with(client.close, refusal_in_child=REFUSAL_IN_CHILD)
        connected.append(client)

    try:
        bridge.call(connect_in_loop)
    except BaseException:
        bridge.close()  # an interrupted call may have connected
        raise
    return connected[0], bridge
