"""Long input cut into batches."""

from io import BytesIO

import pytest
import typer

from tms.cli import batches
from tms.cli.batches import BATCH_MESSAGES_MAX, InputBatch, of_lines


class Trickle:
    """Input that arrives in given parts."""

    def __init__(self, *parts: bytes) -> None:
        self._parts = list(parts)

    def read1(self, _size: int, /) -> bytes:
        return self._parts.pop(0) if self._parts else b""


def test_what_has_arrived_is_not_held_back() -> None:
    given = of_lines(Trickle(b"one\ntwo\nthr", b"ee\n", b"four"))

    assert list(given) == [
        InputBatch([b"one", b"two"], 8),
        InputBatch([b"three"], 6),
        InputBatch([b"four"], 4),
    ]


def test_no_input_is_no_message() -> None:
    assert list(of_lines(BytesIO(b""))) == []
    assert list(of_lines(BytesIO(b"\n"))) == [InputBatch([b""], 1)]


def test_batches_are_bounded_in_count() -> None:
    sizes = [len(batch.messages) for batch in of_lines(BytesIO(b"x\n" * 2500))]

    assert sizes == [BATCH_MESSAGES_MAX, BATCH_MESSAGES_MAX, 500]


def test_input_without_lines_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "LINE_BYTES_MAX", 10)
    with pytest.raises(typer.BadParameter, match="a line of more than"):
        list(of_lines(Trickle(*[b"xxxx"] * 10)))
