"""Many shared holders enter together; an exclusive one is alone."""

import threading

import pytest

from tables.shared_lock import SharedLock
from tests.waiting import WAIT_S_MAX


def test_one_who_shuts_it_waits_for_those_inside_and_keeps_others_out() -> None:
    gate = SharedLock()
    order: list[str] = []
    alone_tries, alone_is_in, late_tries = (threading.Event() for _ in range(3))

    def be_alone() -> None:
        alone_tries.set()
        with gate.exclusive():
            order.append("alone")
            alone_is_in.set()
            late_tries.wait()
            order.append("alone leaves")

    def come_late() -> None:
        alone_is_in.wait()
        late_tries.set()
        with gate.shared():
            order.append("late")

    threads = [threading.Thread(target=be_alone), threading.Thread(target=come_late)]
    with gate.shared(), gate.shared():
        for thread in threads:
            thread.start()
        alone_tries.wait()
        order.append("inside")
    for thread in threads:
        thread.join()

    assert order == ["inside", "alone", "alone leaves", "late"]


def test_an_error_inside_lets_the_next_in() -> None:
    gate = SharedLock()
    for enter in (gate.shared, gate.exclusive):
        with pytest.raises(LookupError), enter():
            raise LookupError
    with gate.exclusive():
        pass


def test_one_may_leave_while_its_thread_has_the_lock() -> None:
    """This happens if the garbage collector ends a forgotten scan while its thread is entering."""
    gate = SharedLock()

    def leave_within() -> None:
        with gate._lock:
            gate._leave()

    gate._enter()
    leaving = threading.Thread(target=leave_within, daemon=True)
    leaving.start()
    leaving.join(WAIT_S_MAX)
    assert not leaving.is_alive()
    with gate.exclusive():
        pass


def test_who_shuts_it_again_and_again_lets_others_in_between() -> None:
    gate = SharedLock()
    done = threading.Event()

    def be_alone_often() -> None:
        while not done.is_set():
            with gate.exclusive():
                pass

    busy = threading.Thread(target=be_alone_often)
    busy.start()
    for _ in range(1000):
        with gate.shared():
            pass
    done.set()
    busy.join()
