"""Payloads and polls for tests of the writer and the service."""

from tests.messaging.conftest import TOPIC
from tests.waiting import turns
from tms.core.values.message import FIRST_ID
from tms.core.values.reading import Reading
from tms.messaging.service import Service


async def polled(service: Service, position: bytes = FIRST_ID) -> list[tuple[bytes, bytes]]:
    blocks = service.poll(TOPIC, Reading(position, limit=1_000_000))
    return [(m.id, m.payload) async for block in blocks for m in block]


async def payloads(service: Service) -> list[bytes]:
    return [payload for _, payload in await polled(service)]


async def settle() -> None:
    """Let every task run until it waits for something outside of the event loop."""
    await turns(10)
