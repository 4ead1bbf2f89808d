"""Messages without end: polls of a topic, one after another, each of which waits.

While the server is unavailable, this waits for it, and then continues after the last message.
"""

from collections.abc import Callable
from contextlib import aclosing

import anyio

from tms.client.reading.poll import Blocks, blocks_of
from tms.client.reading.stops import Stops
from tms.client.remote.resume import AnswerPart, Parts, read_on
from tms.client.remote.retry import may_pass
from tms.core.limits import LIMIT_MAX
from tms.core.services.server_services import Services
from tms.core.values.message import Message, id_after
from tms.core.values.reading import Reading
from tms.core.values.topic import TopicId

WAIT_S = 20.0
"""How long one poll waits for messages before the next one."""
EMPTY_S_MIN = 0.1
"""An empty answer sooner than this comes from a server that no longer waits, because it is
stopping: another poll at once would only keep it busy."""


class ReaderPlace:
    """The position of a reader, which outlives the generators that read for it."""

    def __init__(self, first: Reading) -> None:
        """Start at the position of `first`."""
        self.first = first
        self.position = first.position

    def move(self, position: bytes) -> None:
        """Move it forward to `position`, never back."""
        self.position = max(self.position, position)


async def followed(
    services: Services,
    topic_id: TopicId,
    place: ReaderPlace,
    stops: Stops,
    is_closed: Callable[[], bool],
) -> Blocks:
    """Yield the messages from `place` on, present and future. Raises `RuntimeError` once closed."""

    async def open_poll(position: bytes, limit: int | None) -> Parts[list[Message]]:
        place.move(position)
        reading = place.first._replace(position=place.position, limit=limit)
        messaging = services.messaging  # each time: a child of os.fork() may have none
        passed = None if reading.filter is None else place.move
        answer = blocks_of(messaging, topic_id, reading, stops, WAIT_S, passed=passed)
        async with aclosing(answer) as blocks:
            async for block in blocks:
                yield AnswerPart(block, len(block), block[-1].id)

    def goes_on(error: BaseException) -> bool:
        return may_pass(error) and not is_closed()

    while not is_closed():
        asked_at_s = anyio.current_time()
        empty = True
        answer = read_on(open_poll, place.position, LIMIT_MAX, when=goes_on, for_s=None)
        async with aclosing(answer) as parts:
            async for part in parts:
                yield part.run
                place.move(id_after(part.last_id))
                empty = False
        if empty and anyio.current_time() < asked_at_s + EMPTY_S_MIN:
            await anyio.sleep(EMPTY_S_MIN)
    raise RuntimeError("the client is closed")
