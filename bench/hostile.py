"""Sends hostile requests over many connections, one request each, and counts their answers.

It is to be used in a process of its own, so that the measured client has the other core.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator

_AT_ONCE = 64
_ANSWER_S_MAX = 10.0
"""The time limit of an answer, after which the request counts as unanswered."""
_STATUS = slice(len("HTTP/1.1 "), len("HTTP/1.1 200"))
_NONE = "none"

Then = Callable[[bytes], bytes]
"""Returns the next bytes to send after an answer."""


def send_all(
    requests: Iterator[bytes],
    host: str,
    port: int,
    *,
    at_once: int = _AT_ONCE,
    held_s: float = 0,
    then: Then | None = None,
) -> Counter[str]:
    """Send each request, `at_once` at a time, and count the answers by status.

    A connection is held for `held_s` without reading; if that is 0, until it is answered. With
    `then`, another request follows an answer of 200.
    """
    sending = _Sending(requests, host, port, held_s, then)
    return asyncio.run(sending.send_all(at_once))


class _Sending:
    def __init__(
        self, requests: Iterator[bytes], host: str, port: int, held_s: float, then: Then | None
    ) -> None:
        self._requests = requests
        self._address = host, port
        self._held_s = held_s
        self._then = then
        self._answers: Counter[str] = Counter()

    async def send_all(self, at_once: int) -> Counter[str]:
        await asyncio.gather(*(self._send_some() for _ in range(at_once)))
        return self._answers

    async def _send_some(self) -> None:
        for request in self._requests:
            answer = await self._sent(request)
            if self._then is not None and _status(answer) == "200":
                await self._sent(self._then(answer))

    async def _sent(self, request: bytes) -> bytes:
        answer = b""
        with contextlib.suppress(OSError, TimeoutError):
            answer = await self._answer(request)
        self._answers[_status(answer)] += 1
        return answer

    async def _answer(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*self._address)
        try:
            writer.write(request)
            if self._held_s:
                writer.transport.pause_reading()  # type: ignore[attr-defined]
                await asyncio.sleep(self._held_s)
                return b""
            async with asyncio.timeout(_ANSWER_S_MAX):
                return await reader.read(4096)
        finally:
            writer.transport.abort()


def _status(answer: bytes) -> str:
    return answer[_STATUS].decode("latin-1") or _NONE
