"""The heads of one connection, out of the bytes that come."""

from api.http.head import HEAD_END, Head, PartialHead
from api.http.head_cache import HeadCache
from tms.core.errors import TooLarge

_OF_EMPTY_LINES = (b"", b"\r", b"\n")


class HeadReader:
    """Reads one head after the other."""

    __slots__ = ("_bytes_max", "_heads", "_partial")

    def __init__(self, heads: HeadCache, bytes_max: int) -> None:
        """Look whole heads up in `heads`; a head has `bytes_max` bytes at most."""
        self._heads = heads
        self._bytes_max = bytes_max
        self._partial: PartialHead | None = None  # the head that is coming, if part of it has come

    def read(self, data: bytes) -> tuple[Head, bytes] | None:
        """Return a head and what comes behind it; None until its end has come.

        Raises `InvalidRequest` (malformed_request, expectation_failed), `TooLarge`
        (head_too_large). Then nothing more may be read.
        """
        if self._partial is None:
            if data[:1] in _OF_EMPTY_LINES:
                data = data.lstrip(b"\r\n")  # empty lines before a request are passed over
                if not data:
                    return None
            end = data.find(HEAD_END) + len(HEAD_END)
            if len(HEAD_END) <= end:
                if end > self._bytes_max:
                    raise TooLarge("head_too_large", request_head_bytes_max=self._bytes_max)
                return self._heads.parse(data, end), data[end:]
            self._partial = PartialHead(self._bytes_max)
        read = self._partial.feed(data)
        if read is not None:
            self._partial = None
        return read

    def forget(self) -> None:
        """Keep nothing of a head that is coming: it is refused."""
        self._partial = None
