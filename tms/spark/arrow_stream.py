"""Arrow streams of REST: decoded while they arrive, encoded as one body."""

import io
from collections.abc import Callable, Iterator

import pyarrow as pa

from tms.core.errors import OutcomeUnknown

ARROW = "application/vnd.apache.arrow.stream"
ARROW_FRAMES = f"{ARROW};version=2"
"""With keys and headers."""


class _Arriving(io.RawIOBase):
    """The arriving stream as a file."""

    def __init__(self, next_part: Callable[[], bytes]) -> None:
        super().__init__()
        self._next_part = next_part
        self._rest = memoryview(b"")
        self.error: BaseException | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        room = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        if not self._rest:
            self._rest = memoryview(self._part())
        count = min(len(room), len(self._rest))
        room[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def _part(self) -> bytes:
        try:
            return self._next_part()
        except BaseException as error:
            # Arrow raises its own error instead, without the cause.
            self.error = error
            raise


def batches_of(next_part: Callable[[], bytes]) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a stream; `next_part` returns its parts, then an empty one.

    Raises what `next_part` raises, and `OutcomeUnknown` for a stream that breaks off.
    """
    arriving = _Arriving(next_part)
    try:
        with (
            io.BufferedReader(arriving, 1 << 20) as file,
            pa.ipc.open_stream(pa.PythonFile(file, mode="r")) as stream,
        ):
            yield from stream
    except Exception as error:
        if arriving.error is not None:
            raise arriving.error from None
        if isinstance(error, pa.ArrowException | OSError):
            raise OutcomeUnknown(reason=str(error)) from None
        raise


def stream_of(batch: pa.RecordBatch) -> bytes:
    """Return the stream that a publish or a store takes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream
