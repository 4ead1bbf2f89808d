"""A poll's request in Avro.

    ConsumeRequest := startFrom:   0 bytes | 1 long | 2 null
                      inclusive:   one byte, 0 or 1
                      limit:       0 int | 1 null
                      transaction: 0 bytes | 1 null

The number in front of a union says which branch follows. The schema is in `avro_bodies`; the tests
hold this reader against the library's, on valid and on any other bytes.
"""

from tms.wire.avro import INT_BOUND, NULL, AvroReader, boolean, number, optional, sized
from tms.wire.bodies import PollRequest


def decode_poll_request(body: bytes) -> PollRequest:
    """Return what a poll asks. Raises `InvalidRequest` (invalid_body)."""
    reader = AvroReader(body)
    branch = reader.branch(3)
    start_from: bytes | int | None = None
    if branch == 0:
        start_from = reader.sized()
    elif branch == 1:
        start_from = reader.number()
    inclusive = reader.boolean()
    limit = reader.number(INT_BOUND) if reader.has_value() else None
    transaction = reader.sized() if reader.has_value() else None
    reader.end()
    return PollRequest(start_from, inclusive, limit, transaction)


def encode_poll_request(request: PollRequest) -> bytes:
    """Return the bytes that ask it, for the client."""
    if request.start_from is None:
        start = b"\x04"
    elif isinstance(request.start_from, bytes):
        start = b"\x00" + sized(request.start_from)
    else:
        start = b"\x02" + number(request.start_from)
    return b"".join(
        (
            start,
            boolean(value=request.inclusive),
            NULL if request.limit is None else optional(number(request.limit)),
            NULL if request.transaction is None else optional(sized(request.transaction)),
        )
    )
