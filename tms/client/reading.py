"""A poll that goes on where it broke off.

Messages come in ascending order of id, each once, whatever happens to the connection: after an
error the next attempt starts after the last message that was given. Memory is that of one block.
"""

from collections.abc import AsyncGenerator, Callable

from tms.client.retry import repeat
from tms.core.message import Message, id_after

Blocks = AsyncGenerator[list[Message], None]
"""Runs of messages, none of them empty."""


async def read_on(
    open_poll: Callable[[bytes, int | None], Blocks],
    position: bytes,
    limit: int | None,
    *,
    when: Callable[[BaseException], bool],
    for_s: float | None,
) -> Blocks:
    """Give the blocks of `open_poll(position, limit)`, opening it anew after an error.

    `when` says which errors are followed by another attempt; between two blocks attempts go on for
    `for_s` seconds, None is for ever. Raises what the last attempt raised.
    """
    blocks = open_poll(position, limit)

    async def next_block() -> list[Message] | None:
        nonlocal blocks
        try:
            return await anext(blocks, None)
        except Exception:
            if limit == 0:
                return None  # only the end of the answer was lost
            blocks = open_poll(position, limit)  # one that raised is finished
            raise

    try:
        while (block := await repeat(next_block, when=when, for_s=for_s)) is not None:
            position = id_after(block[-1].id)
            limit = None if limit is None else limit - len(block)
            yield block
    finally:
        await blocks.aclose()
