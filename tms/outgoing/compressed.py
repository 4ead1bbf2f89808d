"""Bodies of answers as gzip, decompressed part by part: none becomes large at once."""

import zlib
from collections.abc import AsyncIterator

from tms.outgoing.answer import Answer, BrokenAnswer, TooLong

_GZIP_WINDOW = 31
_PART_BYTES_MAX = 1024 * 1024


class UnknownCoding(ValueError):
    """Raised for a body in another coding than the one requested."""


def parts_of(answer: Answer) -> AsyncIterator[bytes]:
    """Return the body in parts; reading one may raise as `Answer` does, and `zlib.error`.

    Raises `UnknownCoding`.
    """
    if not _is_coded(answer):
        return answer
    coding = answer.fields[b"content-encoding"].strip().lower()
    if coding not in (b"gzip", b"x-gzip"):
        raise UnknownCoding(f"its body is in another coding than gzip: {coding[:60]!r}")
    return _Decompressed(answer)


async def whole_of(answer: Answer, bytes_max: int) -> bytes:
    """Return the body. Raises as `parts_of`; a longer body is cut off, with `TooLong`."""
    if answer.is_complete and answer.held_bytes <= bytes_max and not _is_coded(answer):
        return answer.take_all()
    parts: list[bytes] = []
    size = 0
    async for part in parts_of(answer):
        parts.append(part)
        size += len(part)
        if size > bytes_max:
            await answer.aclose()
            raise TooLong(f"the answer is longer than {bytes_max} bytes")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _is_coded(answer: Answer) -> bool:
    return answer.fields.get(b"content-encoding", b"identity") != b"identity"


class _Decompressed:
    """The parts of a body."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._decompressor = zlib.decompressobj(_GZIP_WINDOW)
        self._rest = b""
        self._is_empty = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while True:
            if self._rest and not self._decompressor.eof:
                part = self._decompressor.decompress(self._rest, _PART_BYTES_MAX)
                self._rest = self._decompressor.unconsumed_tail
                if part:
                    return part
                continue
            try:
                self._rest = await anext(self._answer)
            except StopAsyncIteration:
                if not self._is_empty and not self._decompressor.eof:
                    raise BrokenAnswer("its gzip is cut off") from None
                raise
            self._is_empty = False
