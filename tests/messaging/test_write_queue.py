"""The requests that a flush takes: small ones first, in order, and one large one."""

from hypothesis import given
from hypothesis import strategies as st

from tms.core.limits import Limits
from tms.messaging.writer import HALF_FROM_BYTES, LARGE_BYTES, WriteQueue

FLUSH_BYTES_MAX = 4 * LARGE_BYTES
LIMITS = Limits(
    flush_bytes_max=FLUSH_BYTES_MAX,
    queue_requests_max=20,
    queue_bytes_max=100,
    request_bytes_max=100,
    message_bytes_max=100,
)
sizes = st.sampled_from((1, 1000, HALF_FROM_BYTES, LARGE_BYTES - 1, LARGE_BYTES, 8 * LARGE_BYTES))


def queue_of(*sizes: int) -> WriteQueue[int]:
    queue: WriteQueue[int] = WriteQueue(LIMITS)
    for number, size in enumerate(sizes):
        queue.add(number, size)
    return queue


def test_small_requests_overtake_large_ones_of_which_each_flush_takes_one() -> None:
    queue = queue_of(LARGE_BYTES, LARGE_BYTES, 1, LARGE_BYTES, 1)

    assert [queue.take(0) for _ in range(4)] == [[2, 4, 0], [1], [3], []]


def test_a_small_request_waits_for_one_large_one_at_most() -> None:
    queue = queue_of(LARGE_BYTES, LARGE_BYTES, LARGE_BYTES)
    assert queue.take(0) == [0]

    queue.add(3, 1)
    assert queue.take(0) == [3], "the large one that was being written was enough to wait for"
    queue.add(4, 1)
    assert queue.take(0) == [4, 1], "large ones get on too"
    queue.add(5, 1)
    assert [queue.take(0) for _ in range(2)] == [[5], [2]]


def test_of_much_half_is_taken() -> None:
    queue = queue_of(*[HALF_FROM_BYTES] * 4)

    assert queue.take(0) == [0, 1]
    assert queue.take(4) == [2, 3]


def test_one_caller_leaves_room_for_those_of_others() -> None:
    queue = queue_of()
    assert queue.has_room(10**9, "ann"), "alone it may be over the bound"
    while queue.has_room(1, "ann"):
        queue.add(0, 1, "ann")
    assert len(queue) == 18
    assert queue.has_room(1, "bob")
    assert queue.has_room(1, None)
    queue.add(0, 60, "bob")
    assert not queue.has_room(23, None)
    assert queue.has_room(22, None)
    while len(queue):
        queue.take(0)
    assert queue.size_bytes == 0

    queue.add(0, 90, "ann")
    assert not queue.has_room(1, "ann")
    assert queue.has_room(10, "bob")
    assert not queue.has_room(11, "bob")


@given(sizes=st.lists(sizes, max_size=30), outstanding=st.integers(0, 40), later=st.lists(sizes))
def test_each_request_is_taken_once_and_small_ones_in_order(
    sizes: list[int], outstanding: int, later: list[int]
) -> None:
    queue = queue_of(*sizes)
    taken: list[int] = []
    for size in later:
        queue.add(len(sizes), size)
        sizes = [*sizes, size]
        some = queue.take(outstanding)
        assert some
        assert sum(sizes[each] >= LARGE_BYTES for each in some) <= 1
        taken += some
    while len(queue):
        assert queue.size_bytes == sum(sizes) - sum(sizes[each] for each in taken)
        some = queue.take(outstanding)
        assert some
        taken += some

    assert sorted(taken) == list(range(len(sizes)))
    for is_large in (False, True):
        kind = [each for each in taken if (sizes[each] >= LARGE_BYTES) is is_large]
        assert kind == sorted(kind)
    assert queue.size_bytes == 0
