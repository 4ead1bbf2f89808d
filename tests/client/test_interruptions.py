"""Ctrl-C at each point of a call at which Python lets a signal handler run."""

import dis
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any

from anyio import CancelScope

from tests.waiting import WAIT_S_MAX
from tms.client.threads import bridge, callback_thread, loop_thread
from tms.client.threads.bridge import Bridge
from tms.client.threads.callback_thread import CallingThread

LETS_SIGNALS_IN = {"RESUME", "JUMP_BACKWARD", "CALL", "CALL_FUNCTION_EX"}
FILES = {module.__file__ for module in (bridge, callback_thread, loop_thread)}


def points(code: CodeType) -> set[int]:
    """Return the offsets in `code` before which a handler may run.

    An exception that it raises belongs to the previous instruction, so the end of a `try` is left
    out.
    """
    instructions = list(dis.get_instructions(code))
    follows = pairwise(instructions)
    return {
        after.offset
        for before, after in follows
        if before.opname in LETS_SIGNALS_IN and line(before) == line(after)
    }


def line(instruction: dis.Instruction) -> int | None:
    return instruction.positions and instruction.positions.lineno


class CtrlC:
    """Raises `KeyboardInterrupt` in this thread, at the point of this number."""

    def __init__(self, number: int) -> None:
        self._left = number
        self._place = "no point"
        self._points: dict[CodeType, set[int]] = {}

    def __repr__(self) -> str:
        return f"Ctrl-C at {self._place}"

    @property
    def was_raised(self) -> bool:
        return self._left < 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename not in FILES or frame.f_code.co_name == "__init__":
            return None
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        at = self._points.setdefault(frame.f_code, points(frame.f_code))
        if event == "opcode" and frame.f_lasti in at:
            self._left -= 1
            if self._left == -1:
                self._place = f"{frame.f_code.co_qualname}, line {frame.f_lineno}"
                raise KeyboardInterrupt
        return self._step


class Calls:
    """A call from a thread that calls back, the last time after its cancellation."""

    def __init__(self, bridge: Bridge) -> None:
        self._thread = CallingThread(bridge)
        self.made: list[str] = []

    async def _work(self) -> str:
        try:
            await self._thread.invoke(self.made.append, "begin")
            return "done"
        finally:
            with CancelScope(shield=True):
                await self._thread.invoke(self.made.append, "end")

    def interrupted_at(self, point: CtrlC) -> bool:
        """Call, with Ctrl-C at `point`; return whether the call reached it."""
        sys.settrace(point)
        try:
            assert self._thread.call(self._work) == "done"
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(None)
        return False

    def is_usable(self) -> bool:
        return self._thread.call(self._work) == "done"


def within_time(function: Callable[[], bool]) -> bool:
    """Return the result of `function`, which must finish in time in a thread of its own."""
    result: Future[bool] = Future()
    threading.Thread(target=lambda: result.set_result(function()), daemon=True).start()
    return result.result(WAIT_S_MAX)


def test_wherever_it_comes_a_call_ends_and_so_does_the_next() -> None:
    bridge, number, came_so_far = Bridge(), 0, True
    assert within_time(Calls(bridge).is_usable)  # the loop runs
    while came_so_far:
        calls = Calls(bridge)
        point = CtrlC(number)

        came_so_far = within_time(partial(calls.interrupted_at, point))

        assert came_so_far == point.was_raised, point
        assert calls.made in ([], ["end"], ["begin", "end"]), point
        assert not bridge.life.calls, point
        assert within_time(calls.is_usable)
        number += 1
    assert number > 20
    bridge.close()
