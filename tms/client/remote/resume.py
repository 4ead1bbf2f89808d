"""A poll that resumes where the connection broke.

Messages are given in ascending order of id, each once, whatever happens to the connection: after an
error the next attempt starts after the last message given. It keeps one block in memory.
"""

from collections.abc import AsyncGenerator, Callable
from typing import Generic, NamedTuple, TypeVar

from tms.client.remote.retry import repeat
from tms.core.values.message import id_after

Run = TypeVar("Run")


class AnswerPart(NamedTuple, Generic[Run]):
    """A run of messages in any form, with the details that resuming needs."""

    run: Run
    size: int
    """How many messages, at least one."""
    last_id: bytes


Parts = AsyncGenerator[AnswerPart[Run], None]


async def read_on(
    open_poll: Callable[[bytes, int | None], Parts[Run]],
    position: bytes,
    limit: int | None,
    *,
    when: Callable[[BaseException], bool],
    for_s: float | None,
) -> Parts[Run]:
    """Yield the parts of `open_poll(position, limit)`, opening it again after an error.

    `when` says after which errors to try again; between two parts attempts continue for `for_s`
    seconds, or without limit if that is None. Raises what the last attempt raised.
    """
    parts = open_poll(position, limit)

    async def next_part() -> AnswerPart[Run] | None:
        nonlocal parts
        try:
            return await anext(parts, None)
        except Exception:
            if limit == 0:
                return None  # only the end of the answer was lost
            parts = open_poll(position, limit)  # a generator that raised has ended
            raise

    try:
        while (part := await repeat(next_part, when=when, for_s=for_s)) is not None:
            position = id_after(part.last_id)
            limit = None if limit is None else limit - part.size
            yield part
    finally:
        await parts.aclose()
