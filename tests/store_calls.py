"""Store calls made in turn with the event loop, so that the same steps have the same outcome.

Use them on a virtual loop, whose executor's calls are made in the loop too. With `PausingCalls` one
call can pause in a thread while the loop continues; apart from that, only one of both runs.
"""

import contextlib
from collections.abc import Callable
from threading import Event, Thread, current_thread
from typing import Any

from tests.waiting import WAIT_S_MAX
from tms.core.errors import Stopping
from tms.messaging.store_threads import OnDone, StoreThread

Outcome = tuple[Any, BaseException | None]


def call_in_loop(self: StoreThread, call: Callable[[], Any], on_done: OnDone) -> None:
    """Make a call at once, instead of `StoreThread.call`."""
    if self._closed:
        raise Stopping
    self.under_way += 1
    _deliver(self, on_done, _outcome(call))


def _outcome(call: Callable[[], Any]) -> Outcome:
    try:
        return call(), None
    except BaseException as raised:  # the caller gets it, whatever it is
        return None, raised


def _deliver(calls: StoreThread, on_done: OnDone, outcome: Outcome) -> None:
    def tell() -> None:
        calls.under_way -= 1
        on_done(*outcome)

    with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits for the answer
        calls._loop.call_soon(tell)


class PausingCalls:
    """Calls of which one may pause; the later calls of the same threads then wait for it."""

    def __init__(self, may_pause: Callable[[], bool]) -> None:
        """Make the calls in the loop, except while `may_pause`."""
        self._may_pause = may_pause
        self.on_pause: Callable[[], object] = lambda: None
        """Called in the loop once a call has paused."""
        self._rests, self._continues = Event(), Event()
        self._thread: Thread | None = None
        self._outcome: Outcome | None = None
        self._paused: StoreThread | None = None
        self._waiting: list[tuple[Callable[[], Any], OnDone]] = []

    def call(self, calls: StoreThread, call: Callable[[], Any], on_done: OnDone) -> None:
        """Make a call, instead of `StoreThread.call`; return when it has ended or paused."""
        if calls is not self._paused and not self._may_pause():
            call_in_loop(calls, call, on_done)
            return
        if calls._closed:
            raise Stopping
        calls.under_way += 1
        if calls is self._paused:
            self._waiting.append((call, on_done))
            return
        assert self._paused is None, "another call has paused"
        self._begin(call)
        if self._outcome is not None:
            _deliver(calls, on_done, self._outcome)
            return
        self._paused = calls
        self._waiting.append((self._outcome_of_thread, on_done))
        self.on_pause()

    def _begin(self, call: Callable[[], Any]) -> None:
        """Make a call in a thread until it ends or pauses."""

        def work() -> None:
            self._outcome = _outcome(call)
            self._rests.set()

        self._outcome = None
        self._rests.clear()
        self._continues.clear()
        self._thread = Thread(target=work, name="pausing", daemon=True)
        self._thread.start()
        self._wait()

    def _wait(self) -> None:
        assert self._rests.wait(WAIT_S_MAX), "time was up: a call has neither ended nor paused"

    def _outcome_of_thread(self) -> Any:
        """Return what the call that paused has returned, or raise what it has raised."""
        assert self._outcome is not None
        result, error = self._outcome
        if error is not None:
            raise error
        return result

    def pause(self) -> None:
        """Pause a call, in its thread, until `resume`."""
        assert current_thread() is self._thread, "only calls of a store's threads pause"
        self._rests.set()
        assert self._continues.wait(WAIT_S_MAX), "time was up: nothing has resumed a call"

    def resume(self) -> None:
        """Let the call that has paused end, then make the calls that wait for it."""
        assert self._paused is not None
        self._rests.clear()
        self._continues.set()
        self._wait()
        for call, on_done in self._waiting:
            _deliver(self._paused, on_done, _outcome(call))
        self._waiting.clear()
        self._paused = None
