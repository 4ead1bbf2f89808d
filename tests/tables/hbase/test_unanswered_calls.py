"""Late effects of an unanswered call, and the rows that can be written before them."""

from tables.hbase import unanswered_calls
from tables.hbase.unanswered_calls import UnansweredCalls

TIMEOUT_S = 30.0


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def doubted() -> tuple[UnansweredCalls, Clock]:
    clock = Clock()
    return UnansweredCalls(TIMEOUT_S, clock), clock


def test_a_row_takes_no_other_value_until_the_call_is_given_up() -> None:
    found, clock = doubted()
    found.add("t", {b"k": b"1", b"l": b"1"}, is_delete=False)
    clock.now_s = 10.0

    assert found.left_s("t", {b"k": b"2"}) == 20.0
    assert found.left_s("t", {b"k": b""}, is_delete=True) == 20.0
    assert found.late_s("t", [b"other", b"l"]) == 20.0
    assert found.left_s("t", {b"k": b"1"}) == 0.0
    assert found.left_s("t", {b"other": b"2"}) == 0.0
    assert found.left_s("u", {b"k": b"2"}) == 0.0
    clock.now_s = 30.0
    assert found.left_s("t", {b"k": b"2"}) == 0.0
    assert not found.are_left


def test_a_row_that_may_be_deleted_late_cannot_be_put() -> None:
    found, _ = doubted()
    found.add("t", {b"k": b""}, is_delete=True)

    assert found.left_s("t", {b"k": b""}) == TIMEOUT_S
    assert found.left_s("t", {b"k": b""}, is_delete=True) == 0.0


def test_a_compare_and_put_is_only_feared_if_it_would_find_what_it_expects() -> None:
    found, _ = doubted()
    found.add_swap("t", b"k", b"1")

    assert found.left_s("t", {b"k": b"2"}) == 0.0
    assert found.left_s("t", {b"k": b""}, is_delete=True) == 0.0
    assert found.left_s("t", {b"k": b"1"}) == TIMEOUT_S


def test_one_that_expects_none_is_feared_if_the_row_is_deleted() -> None:
    found, _ = doubted()
    found.add_swap("t", b"k", None)

    assert found.left_s("t", {b"k": b"2"}) == 0.0
    assert found.left_s("t", {b"k": b""}, is_delete=True) == TIMEOUT_S


def test_the_latest_of_several_doubts_counts() -> None:
    found, clock = doubted()
    found.add("t", {b"k": b"1"}, is_delete=False)
    clock.now_s = 10.0
    found.add("t", {b"k": b"1"}, is_delete=False)

    assert found.left_s("t", {b"k": b"2"}) == TIMEOUT_S


def test_beyond_what_is_remembered_nothing_is_written() -> None:
    found, clock = doubted()
    half = unanswered_calls._ROWS_MAX // 2 + 1
    for start in (0, half):
        rows = {b"%d" % number: b"" for number in range(start, start + half)}
        found.add("t", rows, is_delete=False)
        clock.now_s += 1.0

    assert found.left_s("u", {b"k": b"v"}) == TIMEOUT_S - 2.0
    clock.now_s = TIMEOUT_S
    assert found.left_s("u", {b"k": b"v"}) == 0.0
    assert found.are_left
