"""A poll's messages as Arrow's columns, for asyncio. Needs the extra `arrow`."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from tms.client.reading.poll import message_blocks
from tms.client.reading.stops import Stops
from tms.core.runtime import extras
from tms.core.services.messaging import Messaging
from tms.core.values.message import MessageBlock
from tms.core.values.reading import Reading
from tms.core.values.topic import TopicId

Batches = AsyncGenerator[list[Any], None]
"""Record batches of pyarrow's, in lists of one."""

_BATCH_BYTES_MAX = 4 * 1024 * 1024
"""A batch is complete once it has this number of bytes."""


async def batches_of(
    messaging: Messaging, topic_id: TopicId, reading: Reading, stops: Stops, wait_s: float
) -> Batches:
    """Yield the requested messages, in batches bounded in messages and bytes."""
    try:
        from tms.arrow.polled import BATCH_MESSAGES_MAX, record_batch  # noqa: PLC0415  an extra
    except ModuleNotFoundError as error:
        raise extras.missing("messages as Arrow's columns need pyarrow", error, "arrow") from error

    parts: list[MessageBlock] = []
    async with aclosing(message_blocks(messaging, topic_id, reading, stops, wait_s)) as blocks:
        async for block in blocks:
            parts.append(block)
            count = sum(part.count for part in parts)
            size = sum(len(part.items) for part in parts)
            if count >= BATCH_MESSAGES_MAX or size >= _BATCH_BYTES_MAX:
                yield [record_batch(MessageBlock.joined(parts))]
                parts = []
    if parts:
        yield [record_batch(MessageBlock.joined(parts))]
