"""Lets threads call coroutines, which run in one event loop on a thread of its own.

Guarantees: any thread may call at any time; a call that is interrupted (Ctrl-C) or overtaken by
`close` is cancelled in the loop, and has ended there when it raises here; after `close` the loop's
thread has ended. A call must not be made from the loop's own thread.

The thread is started by the first call, and does not keep the program from ending: what is not
closed by then is closed (`tms.client.program_end`). A child of `os.fork()` has a loop of its own,
also started by its first call.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Lock, current_thread, main_thread
from typing import Any, TypeVar

from tms.client import program_end
from tms.client.loop_thread import LoopThread
from tms.core.errors import OutcomeUnknown
from tms.core.forks import tell_in_child

CANCEL_S_MAX = 5.0
"""How long an interrupted call waits for its end in the loop."""

Result = TypeVar("Result")
Last = Callable[[], Awaitable[None]]


@dataclass(slots=True, eq=False)
class Life:
    """What a bridge has under way in one process."""

    refusal: str | None = None
    """Why no call is made in this process."""
    lock: Lock = field(default_factory=Lock)
    """Held while a call is handed over, so that none is once the loop ends."""
    loop: LoopThread | None = None
    """None before the first call."""
    calls: set[Future[Any]] = field(default_factory=set)
    reads: set[Future[Any]] = field(default_factory=set)
    """Those of the calls that only wait for messages."""
    half_read: set[AsyncGenerator[Any, None]] = field(default_factory=set)
    open_transactions: set[object] = field(default_factory=set)
    """Those that have begun and not ended, to be named where the program ends."""


class Bridge:
    """One event loop on a thread of its own."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self.life = Life()
        """Another one in a child of `os.fork()`."""
        self._closed = False
        self._program_ends = False
        self._last: Last | None = None
        self._refusal_in_child: str | None = None
        tell_in_child(self)

    def forget_parent(self) -> Life:
        """Begin anew in a child of `os.fork()`."""
        life, self.life = self.life, Life(self._refusal_in_child)
        return life

    def close_with(self, last: Last, *, refusal_in_child: str | None = None) -> None:
        """Have `last` called as the last thing in the loop, also where the program ends.

        With a `refusal_in_child`, calls in a child of `os.fork()` raise `RuntimeError` with it.
        """
        self._last = last
        self._refusal_in_child = refusal_in_child

    def call(
        self,
        function: Callable[[], Awaitable[Result]],
        meanwhile: Callable[[Callable[[], object]], None] | None = None,
    ) -> Result:
        """Return what `function` gives in the loop, raise what it raises.

        `meanwhile` is run in this thread until then; it is given what cancels `function`. Raises
        `RuntimeError` after `close`, and `OutcomeUnknown` where `close` came meanwhile.
        """
        return self._call(self.life, function, meanwhile)

    def _call(
        self,
        life: Life,
        function: Callable[[], Awaitable[Result]],
        meanwhile: Callable[[Callable[[], object]], None] | None = None,
        *,
        is_read: bool = False,
    ) -> Result:
        ended = Event()

        async def run() -> Result:
            try:
                return await function()
            finally:
                ended.set()

        with life.lock:
            future = self._open_loop(life).start(run)
            life.calls.add(future)
            if is_read:
                life.reads.add(future)
        try:
            if meanwhile is not None:
                meanwhile(future.cancel)
            return future.result()
        except CancelledError:
            if is_read:
                self._end_thread_with_program()
            raise OutcomeUnknown(reason="the client was closed meanwhile") from None
        except BaseException:
            # In a child that was forked meanwhile, the future and its lock are the parent's.
            if life is self.life and future.cancel():
                ended.wait(CANCEL_S_MAX)
            raise
        finally:
            life.calls.discard(future)
            life.reads.discard(future)

    def _open_loop(self, life: Life) -> LoopThread:
        if life.refusal is not None:
            raise RuntimeError(life.refusal)
        if self._closed:
            self._end_thread_with_program()
            raise RuntimeError("the client is closed")
        if life.loop is None:
            life.loop = LoopThread()
            program_end.close_then(self)
        return life.loop

    def _end_thread_with_program(self) -> None:
        """End a daemon thread that calls while the program ends, without a trace on stderr."""
        if self._program_ends and current_thread() is not main_thread():
            raise SystemExit

    def iterate(self, blocks: AsyncGenerator[Iterable[Result], None]) -> Iterator[Result]:
        """Give what is in `blocks`, crossing to the loop once a block. Raises as `call`.

        In a child of `os.fork()` it does not go on with what its parent began: `RuntimeError`.
        """
        life = self.life
        life.half_read.add(blocks)
        try:
            while (block := self._next(life, blocks)) is not None:
                yield from block
        finally:
            life.half_read.discard(blocks)
            if life is self.life:
                # After `close` there is nothing left to close.
                with suppress(RuntimeError, OutcomeUnknown):
                    self.call(blocks.aclose)

    def _next(
        self, life: Life, blocks: AsyncGenerator[Iterable[Result], None]
    ) -> Iterable[Result] | None:
        if life is not self.life:
            raise RuntimeError(
                "these messages were asked for before os.fork() and are given to the parent: "
                "poll again in the child"
            )
        return self._call(life, lambda: anext(blocks, None), is_read=True)

    def close(self) -> None:
        """Cancel the calls that run, call `last`, end the thread. Twice is the same as once."""
        life = self.life
        with life.lock:
            if self._closed:
                return
            self._closed = True
        program_end.is_closed(self)
        for future in tuple(life.calls):
            future.cancel()
        if life.loop is None:
            return
        try:
            life.loop.start(self._end).result()
        finally:
            life.loop.end()

    async def _end(self) -> None:
        for blocks in tuple(self.life.half_read):
            # One that runs has been cancelled, and ends without this.
            with suppress(RuntimeError):
                await blocks.aclose()
        if self._last is not None:
            await self._last()

    def refuse_calls(self) -> None:
        """Take no more calls (`tms.client.program_end.Unclosed`, as what follows)."""
        with self.life.lock:
            self._closed = self._program_ends = True
        for future in tuple(self.life.reads):
            future.cancel()

    def finish_calls(self, within_s: float) -> int:
        """Wait for what changes something; return how many calls had to be cancelled."""
        left = wait(self.life.calls - self.life.reads, within_s).not_done
        for future in left:
            future.cancel()
        return len(left)

    def open_transactions(self) -> Collection[object]:
        """Return the transactions that nobody has ended."""
        return tuple(self.life.open_transactions)

    def finish(self, within_s: float) -> bool:
        """Call `last` and end the thread. Raises what `last` does."""
        loop = self.life.loop
        if loop is None:
            return True
        try:
            loop.start(self._end).result(within_s)
        except TimeoutError:
            return False
        finally:
            is_ended = loop.end(within_s)
        return is_ended
