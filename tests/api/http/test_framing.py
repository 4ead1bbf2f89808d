"""Where a body ends, in whatever pieces it arrives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.http.protocol.framing import Chunked, Counted, Framing
from tms.core.errors import InvalidRequest


def fed(framing: Framing, data: bytes, cuts: list[int]) -> tuple[bytes, bytes]:
    """Feed data in pieces; return the body, and the bytes after it."""
    body, behind, start = b"", b"", 0
    for end in [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]:
        piece, start = data[start:end], end
        if framing.is_done:
            behind += piece
            continue
        part, rest = framing.feed(piece)
        body += part
        behind += rest
    return body, behind


cuts = st.lists(st.integers(0, 10_000), max_size=8)


@given(body=st.binary(max_size=50), behind=st.binary(max_size=20), cuts=cuts)
def test_a_counted_body_ends_where_its_length_says(
    body: bytes, behind: bytes, cuts: list[int]
) -> None:
    framing = Counted(len(body))

    assert fed(framing, body + behind, cuts) == (body, behind)
    assert framing.is_done


@given(
    chunks=st.lists(st.binary(min_size=1, max_size=40), max_size=5),
    extension=st.sampled_from((b"", b";a", b' ;a="b;c"')),
    trailers=st.sampled_from((b"", b"a: b\r\n", b"a:\r\nb: c d\r\n")),
    behind=st.binary(max_size=20),
    cuts=cuts,
)
def test_chunks_are_joined_up_to_the_last(
    chunks: list[bytes], extension: bytes, trailers: bytes, behind: bytes, cuts: list[int]
) -> None:
    sent = b"".join(b"%x%s\r\n%s\r\n" % (len(chunk), extension, chunk) for chunk in chunks)
    framing = Chunked()

    assert fed(framing, sent + b"0\r\n" + trailers + b"\r\n" + behind, cuts) == (
        b"".join(chunks),
        behind,
    )
    assert framing.is_done


@given(data=st.binary(max_size=60), cuts=cuts)
def test_anything_is_taken_or_refused_alike_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    def outcome(cuts: list[int]) -> tuple[bytes, bytes] | str:
        try:
            return fed(Chunked(), data, cuts)
        except InvalidRequest as error:
            return error.problem.code

    assert outcome(cuts) == outcome([])


@pytest.mark.parametrize("line", [b"0" * 5000, b"0;" + b"a" * 5000, b"0\r\n" + b"a: b\r\n" * 4000])
def test_lines_and_trailers_are_bounded(line: bytes) -> None:
    framing = Chunked()
    with pytest.raises(InvalidRequest):
        framing.feed(line)
