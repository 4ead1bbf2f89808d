"""A poll that goes on where it broke off.

Messages come in ascending order of id, each once, whatever happens to the connection: after an
error the next attempt starts after the last message that was given. Memory is that of one block.
"""

from collections.abc import AsyncGenerator, Callable
from typing import Generic, NamedTuple, TypeVar

from tms.client.remote.retry import repeat
from tms.core.values.message import id_after

Run = TypeVar("Run")


class AnswerPart(NamedTuple, Generic[Run]):
    """A run of messages, in whatever form, and what reading on needs to know of it."""

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
    """Give the parts of `open_poll(position, limit)`, opening it anew after an error.

    `when` says which errors are followed by another attempt; between two parts attempts go on for
    `for_s` seconds, None is for ever. Raises what the last attempt raised.
    """
    parts = open_poll(position, limit)

    async def next_part() -> AnswerPart[Run] | None:
        nonlocal parts
        try:
            return await anext(parts, None)
        except Exception:
            if limit == 0:
                return None  # only the end of the answer was lost
            parts = open_poll(position, limit)  # one that raised is finished
            raise

    try:
        while (part := await repeat(next_part, when=when, for_s=for_s)) is not None:
            position = id_after(part.last_id)
            limit = None if limit is None else limit - part.size
            yield part
    finally:
        await parts.aclose()
