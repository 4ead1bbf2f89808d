"""A signal handler or a finalizer may run at any point of a call, and the call never hangs.

The point is each line of Python that the calling thread runs within the call, one after the other.
"""

import gc
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tms
from tests.waiting import WAIT_S_MAX
from tms.client.reading.half_read import Generated, HalfRead
from tms.client.threads.bridge import Bridge
from tms.core.errors import OutcomeUnknown

PROGRAM = """
import signal, sys
import tms

client = tms.connect(sys.argv[1])
topic = client.topic("signals")
topic.create()
handled = []

def handle(*_):
    if sys.argv[2] == "close":
        client.close()
    elif len(handled) < 200:
        handled.append(topic.publish(b"handler"))
        signal.setitimer(signal.ITIMER_REAL, 0.002)
    else:
        handled.append(None)

signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.002)
published = 0
try:
    while len(handled) <= 200:
        topic.publish(b"main")
        published += 1
except (tms.OutcomeUnknown, RuntimeError):
    assert sys.argv[2] == "close"
    print("closed")
else:
    assert len(list(topic.poll())) == published + 200
    client.close()
    print("published")
"""


class Hangs(Exception):
    """Raised in place of a wait that would never end."""


def interrupted(call: Callable[[], Any], handler: Callable[[], Any], point: int) -> bool:
    """Run `call` with `handler` at its line number `point`; return whether it reached that line."""
    lines = 0
    was_there = False

    def at_line(_frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines, was_there
        lines += event == "line"
        if lines > point and not was_there:
            was_there = True
            sys.settrace(None)
            handler()
        return None if was_there else at_line

    sys.settrace(at_line)
    try:
        call()
    finally:
        sys.settrace(None)
    return was_there


def at_each_point(scene: Callable[[int], bool]) -> int:
    """Play the scene at all points; return how many there are. Raises `Hangs`."""
    points = 0

    def hangs(*_: object) -> None:
        raise Hangs(f"at point {points}")

    before = signal.signal(signal.SIGALRM, hangs)
    try:
        while True:
            signal.setitimer(signal.ITIMER_REAL, WAIT_S_MAX)
            if not scene(points):
                return points
            points += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


async def answer() -> str:
    return "answered"


@pytest.mark.parametrize("is_first", [False, True], ids=["later-call", "first-call"])
def test_a_call_in_a_handler_is_answered_or_told_what_to_do(is_first: bool) -> None:  # noqa: FBT001
    refused: list[str] = []

    def scene(point: int) -> bool:
        bridge = Bridge()
        if not is_first:
            bridge.call(answer)

        def handle() -> None:
            try:
                assert bridge.call(answer) == "answered"
            except RuntimeError as error:
                refused.append(str(error))

        try:
            return interrupted(lambda: bridge.call(answer), handle, point)
        finally:
            assert bridge.call(answer) == "answered"
            bridge.close()

    assert at_each_point(scene) > 15
    assert bool(refused) == is_first
    assert all("set a flag" in told for told in refused)


@pytest.mark.parametrize("is_first", [False, True], ids=["later-call", "first-call"])
def test_a_handler_closes_or_is_told_what_to_do(is_first: bool) -> None:  # noqa: FBT001
    before = set(threading.enumerate())

    def scene(point: int) -> bool:
        bridge = Bridge()
        if not is_first:
            bridge.call(answer)

        def handle() -> None:
            try:
                bridge.close()
            except RuntimeError as error:
                assert is_first
                assert "set a flag" in str(error)

        try:
            return interrupted(lambda: bridge.call(answer), handle, point)
        except (OutcomeUnknown, RuntimeError):
            return True
        finally:
            bridge.close()
            assert set(threading.enumerate()) <= before

    assert at_each_point(scene) > 15


@pytest.mark.parametrize("is_first", [False, True], ids=["later-call", "first-call"])
def test_the_end_of_a_half_read_iterator_waits_for_nothing(is_first: bool) -> None:  # noqa: FBT001
    """The collector runs finalizers in the same way, in the thread that calls."""

    def scene(point: int) -> bool:
        bridge = Bridge()
        if not is_first:
            bridge.call(answer)
        other = Bridge()
        closed = threading.Event()

        async def blocks() -> AsyncGenerator[list[int], None]:
            try:
                yield [1, 2]
            finally:
                closed.set()

        runs = HalfRead(Generated(blocks))
        half_read = (other if is_first else bridge).iterate(runs)
        assert next(half_read) == 1
        try:
            return interrupted(lambda: bridge.call(answer), half_read.close, point)
        finally:
            half_read.close()
            assert closed.wait(WAIT_S_MAX)
            bridge.close()
            other.close()

    assert at_each_point(scene) > 15


class Circle:
    """Refers to itself, so only the collector frees it."""

    def __init__(self, held: object) -> None:
        self.me, self.held = self, held


@pytest.mark.parametrize("read", ["poll", "follow"])
def test_the_collector_ends_half_read_iterators_in_the_loops_own_thread(read: str) -> None:
    ended = threading.Event()

    def collect_in_the_loop() -> None:
        with tms.connect("memory:") as client:
            topic = client.topic("collected")
            topic.create()
            topic.publish([b"1", b"2"])
            half_read = getattr(topic, read)()
            next(half_read)
            Circle(half_read)
            del half_read

            async def collect() -> None:
                gc.collect()

            client._bridge.call(collect)
            assert not client._bridge.life.half_read
            topic.publish(b"3")
        ended.set()

    gc.disable()
    try:
        threading.Thread(target=collect_in_the_loop, daemon=True).start()
        assert ended.wait(WAIT_S_MAX), "it hangs"
    finally:
        gc.enable()


def test_collected_iterators_do_not_stop_a_program() -> None:
    ended = threading.Event()

    def publish_and_forget() -> None:
        with tms.connect("memory:") as client:
            topic = client.topic("collected")
            topic.create()
            topic.publish([b"x"] * 200)
            for _ in range(150):
                half_read = topic.poll()
                next(half_read)
                Circle(half_read)
                topic.publish(b"y")
        ended.set()

    before = gc.get_threshold()
    gc.set_threshold(20, 2, 2)
    try:
        threading.Thread(target=publish_and_forget, daemon=True).start()
        assert ended.wait(WAIT_S_MAX), "it hangs"
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize(("what", "said"), [("publish", "published"), ("close", "closed")])
@pytest.mark.parametrize("kind", ["memory:", pytest.param("leveldb:", marks=pytest.mark.slow)])
def test_real_signals_interrupt_a_program_that_publishes(
    kind: str, what: str, said: str, tmp_path: Path
) -> None:
    url = kind if kind == "memory:" else f"{kind}{tmp_path / 'store'}"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, url, what],
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=False,
    )
    assert (done.stdout.strip(), done.returncode) == (said, 0), done.stderr
