"""Searches a topic for messages, at bounded cost: the newest, after a position, or of a key.

Messages are read without a transaction, so open and rolled back ones are included (`fates`). A log
can only be read forwards. To find the newest messages, a window at its end is widened, and narrowed
again if it has too many. The window is a range of numbers: a key of the log is a time and a
sequence id, so it can be read as one number.
"""

import asyncio
from collections import deque
from collections.abc import Collection
from math import isqrt
from time import perf_counter
from typing import NamedTuple

from tms.core.services.messaging import MessagingService
from tms.core.values.message import FIRST_ID, KEY, KEY_BYTES, NO_PAYLOAD_KEY, Message, id_after
from tms.core.values.ranges import TopicRange
from tms.core.values.reading import Reading
from tms.core.values.topic import TopicId

SHOWN = 50
"""The messages of a page."""
LOOKED_MAX = 20_000
"""The most messages that a search reads; below are the most bytes and seconds."""
LOOKED_BYTES_MAX = 16 * 1024 * 1024
LOOKED_S_MAX = 0.15
_AT_ONCE = 200
_NARROW = 64
_WIDER = 16
_NARROWINGS_MAX = 40
_LAST_PAGES_MAX = 20


class Found(NamedTuple):
    """The result of a search."""

    messages: list[Message]
    next: bytes | None = None
    """Where to continue; None at the end."""
    looked_at: int = 0
    """How many messages the search has read."""


class Look(NamedTuple):
    """Searches one topic."""

    messaging: MessagingService
    topic_id: TopicId

    async def page(self, position: bytes, limit: int) -> Found:
        """Return the messages from a position on."""
        page = await self.messaging.page(self.topic_id, Reading(position, limit))
        return Found([message for block in page.blocks for message in block], page.next_position)

    async def one(self, message_id: bytes) -> Message | None:
        """Return the message with an id; None if readers do not get it."""
        reading = Reading(message_id, 1, end=id_after(message_id))
        page = await self.messaging.page(self.topic_id, reading)
        return next((message for block in page.blocks for message in block), None)

    async def newest(self, log: TopicRange, now_ms: int) -> Found:
        """Return the newest messages of a log: a page of them, or fewer if they are large.

        `now_ms` is the time of the server.
        """
        end = log.end
        if (
            await self.page(end, 1)
        ).messages:  # beyond the part that a transaction in progress holds back
            end = max(end, KEY.pack(now_ms + 1, 0) + NO_PAYLOAD_KEY)
        last, first = _number_of(end), _number_of(log.start)
        width, fitting = _NARROW, 0
        best: list[Message] = []
        while True:
            start = max(last - width, first)
            page = await self.page(_position_of(start), _AT_ONCE)
            if page.next is not None:
                break
            if len(page.messages) >= SHOWN or start <= first:
                return Found(page.messages[-SHOWN:])
            best, fitting, width = page.messages, width, width * _WIDER
        for _ in range(_NARROWINGS_MAX):
            if width - fitting <= 1:
                break
            middle = max(fitting + 1, isqrt(fitting * width))
            page = await self.page(_position_of(max(last - middle, first)), _AT_ONCE)
            if page.next is not None:
                width = middle
                continue
            best, fitting = page.messages, middle
            if len(best) >= SHOWN:
                break
        return Found(best[-SHOWN:]) if best else await self._last_of(last - width)

    async def _last_of(self, start: int) -> Found:
        """Return the last messages of one key, which has very many or very large ones."""
        kept: deque[Message] = deque(maxlen=SHOWN)
        position: bytes | None = _position_of(start)
        for _ in range(_LAST_PAGES_MAX):
            if position is None:
                break
            page = await self.page(position, _AT_ONCE)
            kept += page.messages
            position = page.next
            await asyncio.sleep(0)
        return Found(list(kept), position)

    async def of_key(self, keys: Collection[bytes], position: bytes = FIRST_ID) -> Found:
        """Return messages of some keys after a position, as far as a bounded search finds any."""
        hits: list[Message] = []
        count = size = 0
        at: bytes | None = position
        ends_at = perf_counter() + LOOKED_S_MAX
        while at is not None and len(hits) < SHOWN:
            is_enough = count >= LOOKED_MAX or size >= LOOKED_BYTES_MAX
            if is_enough or perf_counter() > ends_at:
                break
            page = await self.page(at, _AT_ONCE)
            at = page.next
            for message in page.messages:
                count += 1
                size += len(message.payload)
                if message.key in keys:
                    hits.append(message)
                    if len(hits) == SHOWN:
                        at = id_after(message.id)
                        break
            await asyncio.sleep(0)
        return Found(hits, at, count)


def _number_of(position: bytes) -> int:
    return int.from_bytes(position[:KEY_BYTES])


def _position_of(number: int) -> bytes:
    return max(number, 0).to_bytes(KEY_BYTES) + NO_PAYLOAD_KEY
