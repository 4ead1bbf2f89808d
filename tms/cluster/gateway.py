"""Finds out whether a gateway closes connections on which nothing is said, and how soon.

A leader's fence rests on that (`lease.py`): a request that a paused process sends at last must find
its connection closed. So it is tried, not believed.
"""

import asyncio

SLACK_S = 2.0
"""How much later than said it may be, on a busy machine."""
_RETRY_S = 5.0


async def check_idle_close(host: str, port: int, idle_s: float) -> str | None:
    """Return what is wrong; None where an idle connection is closed within `idle_s` seconds.

    A gateway that cannot be reached is tried until it can.
    """
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, port)
        except OSError:
            await asyncio.sleep(_RETRY_S)
            continue
        try:
            # Asked twice: who was paused finds the time over before it hears that it was closed.
            closes = await _is_closed(reader, idle_s) or await _is_closed(reader, SLACK_S)
        finally:
            writer.close()
        if closes:
            return None
        return (
            f"HBase's gateway at {host}:{port} keeps an idle connection for more than "
            f"{idle_s:g} s, so a server that was paused could write late: set its "
            "hbase.thrift.server.socket.read.timeout to hbase_gateway_idle_s or less"
        )


async def _is_closed(reader: asyncio.StreamReader, within_s: float) -> bool:
    """Return whether the other side closes the connection in time."""
    try:
        async with asyncio.timeout(within_s):
            await reader.read(1)
    except TimeoutError:
        return False
    except OSError:
        return True  # if rudely
    return True
