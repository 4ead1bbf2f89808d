"""Bodies of requests in Arrow, made from payloads."""

from collections.abc import Sequence

import pyarrow as pa

from tms.arrow import PAYLOAD, encode_batches


def encode_payloads(payloads: Sequence[bytes]) -> bytes:
    """Return the body of a publish or store."""
    column = pa.array(payloads, pa.binary())
    return encode_batches([pa.RecordBatch.from_arrays([column], names=[PAYLOAD])])
