"""Lets threads call coroutines, which run in one event loop on a separate thread.

Guarantees: any thread may call at any time; a call that is interrupted (Ctrl-C) or ended by `close`
is cancelled in the loop, and has ended there when it raises here; after `close` the loop's thread
has ended. A call from the loop's own thread raises `RuntimeError`.

A signal handler may call and close, whatever its thread was doing: the only lock here is held while
the thread starts, and a handler that interrupts that gets `RuntimeError` at once. Ending a
half-read iterator, which the garbage collector may do in any thread, takes no lock and does not
wait.

The first call starts the thread, which does not keep the program from ending: clients still open
then are closed (`tms.client.threads.program_end`). An open client without references closes itself
with a `ResourceWarning`, as files do. A child of `os.fork()` has its own loop, also started by its
first call.
"""

import warnings
from asyncio import CancelledError
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
)
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import RLock, current_thread, main_thread
from time import monotonic
from typing import Any, ParamSpec, TypeVar

from tms.client.threads import program_end
from tms.client.threads.loop_thread import LoopCall, LoopThread
from tms.client.threads.messages import Closable, Messages, Runs
from tms.core.errors import OutcomeUnknown
from tms.core.runtime.forks import tell_in_child

CANCEL_S_MAX = 5.0
"""How long an interrupted call waits until it has ended in the loop."""
_INTERRUPTS_THE_START = (
    "a signal handler has interrupted the client's first call, which is starting its thread: have "
    "the handler set a flag or start a thread that calls, or make a call before the signal can come"
)
_WAITS_FOR_ITSELF = (
    "the client is called by what its own thread runs, which would wait for itself: call it in "
    "another thread, or give it a list instead of what calls it when it is read"
)

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Last = Callable[[], Awaitable[None]]
_PLAIN = frozenset((bytes, str, int, float, bool, list, type(None)))


@dataclass(slots=True, eq=False)
class Life:
    """The loop of a bridge in one process, and its calls in progress."""

    refusal: str | None = None
    """Why calls are refused in this process."""
    lock: Any = field(default_factory=RLock)
    """Held while the loop is started."""
    is_starting: bool = False
    """Whether the thread that holds the lock is starting the loop."""
    loop: LoopThread | None = None
    """None before the first call."""
    calls: dict[LoopCall[Any], bool] = field(default_factory=dict)
    """For each, whether it only waits for messages."""
    half_read: set[Closable] = field(default_factory=set)
    open_transactions: set[object] = field(default_factory=set)
    """Those that have begun and not ended, to be named when the program ends."""


class Bridge:
    """An event loop on a separate thread."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self.life = Life()
        """Replaced in a child of `os.fork()`."""
        self._closed = self._closes_itself = False
        self._program_ends = False
        self._last: Last | None = None
        self._refusal_in_child: str | None = None
        tell_in_child(self)

    def __del__(self) -> None:
        """Close an unreferenced bridge. The garbage collector may call this: it takes no lock."""
        if self._closed or self.life.loop is None:
            return
        self.close_soon()
        program_end.close_then(self)  # the garbage collector has removed it from there
        warnings.warn("a client was not closed", ResourceWarning, source=self, stacklevel=2)

    def forget_parent(self) -> Life:
        """Start again in a child of `os.fork()`."""
        life, self.life = self.life, Life(self._refusal_in_child)
        return life

    def close_with(self, last: Last, *, refusal_in_child: str | None = None) -> None:
        """Call `last` as the last thing in the loop, also when the program ends.

        With a `refusal_in_child`, calls in a child of `os.fork()` raise `RuntimeError` with it.
        """
        self._last = last
        if self.life.loop is not None:
            self.life.loop.kept = last
        self._refusal_in_child = refusal_in_child

    def call(
        self,
        function: Callable[Arguments, Awaitable[Result]],
        /,
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Result:
        """Call `function` in the loop; return its result or raise its error.

        An iterator among the arguments is read here, in the calling thread. Raises `RuntimeError`
        after `close`, and `OutcomeUnknown` if `close` was called in the meantime.
        """
        return self._call(self.life, with_arguments(function, *arguments, **named))

    def serve(
        self,
        function: Callable[[], Awaitable[Result]],
        while_waiting: Callable[[LoopCall[Any]], None],
    ) -> Result:
        """Do the same, while `while_waiting`, which gets the call, runs in this thread."""
        return self._call(self.life, function, while_waiting)

    def _call(
        self,
        life: Life,
        function: Callable[[], Awaitable[Result]],
        while_waiting: Callable[[LoopCall[Any]], None] | None = None,
        *,
        is_read: bool = False,
    ) -> Result:
        call = LoopCall(function)
        try:
            life.calls[call] = is_read
            self._start(life, call)
            if while_waiting is not None:
                while_waiting(call)
            return call.result()
        except CancelledError:
            if is_read:
                self._end_thread_with_program()
            raise OutcomeUnknown(reason="the client was closed in the meantime") from None
        except BaseException:
            # In a child that was forked in the meantime, the call is the parent's.
            if life is self.life and not call.is_over:
                call.cancel()
                if while_waiting is not None:
                    while_waiting(call)
                call.wait(CANCEL_S_MAX)
            raise
        finally:
            life.calls.pop(call, None)

    def _start(self, life: Life, call: LoopCall[Any]) -> None:
        try:
            self._open_loop(life).start(call)
        except RuntimeError:
            call.lose()
            self._check_open()
            raise

    def _open_loop(self, life: Life) -> LoopThread:
        if life.refusal is not None:
            raise RuntimeError(life.refusal)
        if life.loop is None or self._closed:
            with self._starting(life):
                self._check_open()
                if life.loop is None:
                    life.loop = LoopThread()
                    life.loop.kept = self._last
                    program_end.close_then(self)
        elif life.loop.is_current():
            raise RuntimeError(_WAITS_FOR_ITSELF)
        return life.loop

    @contextmanager
    def _starting(self, life: Life) -> Iterator[None]:
        """Lock the start of the loop, to start it or to prevent further starts."""
        with life.lock:
            if life.is_starting:
                raise RuntimeError(_INTERRUPTS_THE_START)
            life.is_starting = True
            try:
                yield
            finally:
                life.is_starting = False

    def _check_open(self) -> None:
        if self._closed:
            self._end_thread_with_program()
            raise RuntimeError("the client is closed")

    def _end_thread_with_program(self) -> None:
        """End a daemon thread that calls while the program ends, without a traceback on stderr."""
        if self._program_ends and current_thread() is not main_thread():
            raise SystemExit

    def iterate(self, runs: Runs, form: Callable[[Any], Any] | None = None) -> Messages[Any]:
        """Iterate over the items of `runs`, with one call to the loop a run. Raises as `call`.

        A child of `os.fork()` cannot continue an iteration of its parent: `RuntimeError`.
        """
        life = self.life

        def end() -> None:
            if runs in life.half_read:
                self.give_up(life, runs)

        return Messages(partial(self._next, life, runs), end, form)

    def give_up(self, life: Life, runs: Closable) -> None:
        """Close `runs` soon, without a lock or a wait."""
        life.half_read.discard(runs)
        if life is self.life and life.loop is not None:
            life.loop.start_closing(runs.aclose)

    def _next(self, life: Life, runs: Runs, items: list[Any]) -> bool:
        if life is not self.life:
            raise RuntimeError(
                "these messages were asked for before os.fork() and are given to the parent: "
                "poll again in the child"
            )
        life.half_read.add(runs)
        has_items = self._call(life, partial(runs.next, items), is_read=True)
        if not has_items:
            life.half_read.discard(runs)
        return has_items

    def close(self) -> None:
        """Cancel running calls, call `last`, end the thread. Closing twice is harmless."""
        life = self.life
        with self._starting(life):
            if self._closed:
                return
            self._closed = True
        program_end.is_closed(self)
        for call in tuple(life.calls):
            call.cancel()
        if life.loop is None:
            return
        try:
            life.loop.start(LoopCall(self._end)).result()
        finally:
            life.loop.end()

    def close_soon(self) -> None:
        """Close without waiting. The garbage collector may call this: it takes no lock."""
        self._closed = self._closes_itself = True
        if self.life.loop is not None:
            self.life.loop.start_closing(self._end_and_stop)

    async def _end_and_stop(self) -> None:
        try:
            await self._end()
        finally:
            if self.life.loop is not None:
                self.life.loop.stop()
            program_end.is_closed(self)

    async def _end(self) -> None:
        for runs in tuple(self.life.half_read):
            with suppress(Exception):
                await runs.aclose()
        if self.life.loop is not None:
            await self.life.loop.finish_closings(CANCEL_S_MAX)
        if self._last is not None:
            await self._last()

    @property
    def ends_with_program(self) -> bool:
        """Whether it refuses calls because the program ends."""
        return self._program_ends

    def refuse_calls(self) -> None:
        """Refuse calls (`tms.client.threads.program_end.Unclosed`, as the methods below)."""
        self._closed = self._program_ends = True
        for call in self._calls_that(are_reads=True):
            call.cancel()

    def finish_calls(self, within_s: float) -> int:
        """Wait for calls that change something; return how many had to be cancelled."""
        until = monotonic() + within_s
        changing = self._calls_that(are_reads=False)
        unfinished = [call for call in changing if not call.wait(max(0.0, until - monotonic()))]
        for call in unfinished:
            call.cancel()
        return len(unfinished)

    def _calls_that(self, *, are_reads: bool) -> list[LoopCall[Any]]:
        return [call for call, is_read in tuple(self.life.calls.items()) if is_read is are_reads]

    def open_transactions(self) -> Collection[object]:
        """Return the transactions that have begun and not ended."""
        return tuple(self.life.open_transactions)

    def finish(self, within_s: float) -> bool:
        """Call `last` and end the thread. Raises the error of `last`."""
        loop = self.life.loop
        if loop is None:
            return True
        if self._closes_itself:
            return loop.wait(within_s)
        try:
            loop.start(LoopCall(self._end)).result(within_s)
        except TimeoutError:
            return False
        finally:
            is_ended = loop.end(within_s)
        return is_ended


def with_arguments(
    function: Callable[Arguments, Awaitable[Result]],
    /,
    *arguments: Arguments.args,
    **named: Arguments.kwargs,
) -> Callable[[], Awaitable[Result]]:
    """Bind `function` to its arguments; iterators among them are read in this thread.

    In the loop's thread, an iterator that calls the client would wait for that thread itself, and a
    slow one would block it.
    """
    call: Callable[..., Awaitable[Result]] = function
    given = {name: _read_here(each) for name, each in named.items()}
    return partial(call, *map(_read_here, arguments), **given)


def _read_here(argument: Any) -> Any:
    if type(argument) in _PLAIN:
        return argument
    if isinstance(argument, Iterator):
        return list(argument)
    if isinstance(argument, Mapping) and any(
        isinstance(each, Iterator) for each in argument.values()
    ):
        return {name: _read_here(each) for name, each in argument.items()}
    return argument
