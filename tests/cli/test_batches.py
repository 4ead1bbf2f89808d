"""Long input cut into batches."""

import itertools
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tms.cli import batches
from tms.cli.batches import BATCH_MESSAGES_MAX, InputBatch, WrongInput, of_lines


class Trickle:
    """Input that arrives in given parts."""

    def __init__(self, *parts: bytes) -> None:
        self._parts = list(parts)

    def read1(self, _size: int, /) -> bytes:
        return self._parts.pop(0) if self._parts else b""


def test_what_has_arrived_is_not_held_back() -> None:
    lines = of_lines(Trickle(b"one\ntwo\nthr", b"ee\n", b"four"))

    assert list(lines) == [
        InputBatch([b"one", b"two"], 8),
        InputBatch([b"three"], 6, first_line=3),
        InputBatch([b"four"], 4, first_line=4),
    ]


def test_no_input_is_not_a_message() -> None:
    assert list(of_lines(BytesIO(b""))) == []
    assert list(of_lines(BytesIO(b"\n"))) == [InputBatch([b""], 1)]


def test_batches_are_bounded_in_count() -> None:
    sizes = [len(batch.messages) for batch in of_lines(BytesIO(b"x\n" * 2500))]

    assert sizes == [BATCH_MESSAGES_MAX, BATCH_MESSAGES_MAX, 500]


@pytest.mark.parametrize("parts", [[b"xxxx"] * 10, [b"one\ntwo\nxxxxxx", b"xxxxx\nfour\n"]])
def test_a_line_that_is_too_long_ends_the_input_behind_those_before_it(
    monkeypatch: pytest.MonkeyPatch, parts: list[bytes]
) -> None:
    monkeypatch.setattr(batches, "LINE_BYTES_MAX", 10)
    with pytest.raises(WrongInput, match=r"^line \d of log is longer than 10 bytes$"):
        list(of_lines(Trickle(*parts), "log"))


@given(
    st.binary().map(lambda raw: raw.replace(b"a", b"\n")),
    st.lists(st.integers(1, 40), min_size=1),
)
def test_however_it_arrives_the_lines_are_the_same(whole: bytes, sizes: list[int]) -> None:
    parts, at = [], 0
    for size in itertools.cycle(sizes):
        parts.append(whole[at : at + size])
        at += size
        if at >= len(whole):
            break
    found = list(of_lines(Trickle(*filter(None, parts))))

    lines = whole.split(b"\n")
    assert [line for batch in found for line in batch.messages] == (
        lines if lines[-1] else lines[:-1]
    )
    assert sum(batch.input_bytes for batch in found) == len(whole)
    numbers = [batch.first_line for batch in found]
    assert numbers == [
        1 + sum(len(batch.messages) for batch in found[:index]) for index in range(len(found))
    ]


def test_the_work_grows_with_a_line_and_no_faster() -> None:
    looked_at = 0

    class Part(bytes):
        def split(self, *arguments: object) -> list[bytes]:
            nonlocal looked_at
            looked_at += len(self)
            return bytes(self).split(b"\n")

    [batch] = of_lines(Trickle(*[Part(b"x" * 1000)] * 1000))

    assert (len(batch.messages[0]), looked_at) == (1_000_000, 1_000_000)
