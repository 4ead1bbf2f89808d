"""Request bodies in Arrow, made from payloads or record batches."""

from collections.abc import Iterable, Sequence

import pyarrow as pa

from tms.arrow.published import PAYLOAD


def encode_batches(batches: Iterable[pa.RecordBatch]) -> bytes:
    """Return the body of a publish or store, made from record batches with a column of payloads.

    There must be at least one batch.
    """
    sink = pa.BufferOutputStream()
    writer = None
    for batch in batches:
        writer = writer or pa.ipc.new_stream(sink, batch.schema)
        writer.write_batch(batch)
    assert writer is not None
    writer.close()
    return bytes(sink.getvalue())


def encode_payloads(payloads: Sequence[bytes]) -> bytes:
    """Return the body of a publish or store."""
    column = pa.array(payloads, pa.binary())
    return encode_batches([pa.RecordBatch.from_arrays([column], names=[PAYLOAD])])
