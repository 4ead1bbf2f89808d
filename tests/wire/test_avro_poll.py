"""The reader of poll requests, compared with the library's."""

from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tms.core.errors import InvalidRequest
from tms.wire.avro_bodies import AVRO, CONSUME_REQUEST_SCHEMA
from tms.wire.bodies import PollRequest

SCHEMA = fastavro.parse_schema(CONSUME_REQUEST_SCHEMA)
REQUESTS = st.builds(
    PollRequest,
    st.none() | st.binary(max_size=40) | st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.none() | st.integers(-(2**31), 2**31 - 1),
    st.none() | st.binary(max_size=200),
    st.none(),
    st.none(),
    st.none(),
)


@given(REQUESTS)
def test_what_the_library_writes_is_read(request: PollRequest) -> None:
    assert AVRO.decode_poll(AVRO.encode_poll(request)) == request


@given(REQUESTS, st.data())
def test_damaged_bytes_are_refused_or_mean_what_the_library_says(
    request: PollRequest, data: st.DataObject
) -> None:
    body = bytearray(AVRO.encode_poll(request))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(st.integers(0, 255))
    try:
        found = AVRO.decode_poll(bytes(body))
    except InvalidRequest as error:
        assert error.problem.code == "invalid_body"
    else:
        read: Any = fastavro.schemaless_reader(BytesIO(bytes(body)), SCHEMA, None)
        assert found == PollRequest(
            read["startFrom"], read["inclusive"], read["limit"], read["transaction"]
        )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x06\x01\x02\x02",  # no fourth branch
        b"\x01\x01\x02\x02",  # no branch -1
        b"\x04\x02\x02\x02",  # no boolean
        b"\x04\x01\x01\x02",  # limit has no branch -1
        b"\x04\x01\x02",  # cut off
        b"\x04\x01\x02\x02\x00",  # bytes left over
        b"\x00\x01\x01\x02\x02",  # bytes of length -1
        b"\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01\x02\x02",  # bytes without end
        b"\x02" + b"\xff" * 9 + b"\x03\x01\x02\x02",  # beyond 64 bits
        b"\x04\x01\x00\x80\x80\x80\x80\x10\x02",  # beyond 32 bits
        b"\x02" + b"\xff" * 100,
    ],
)
def test_what_is_not_a_request_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        AVRO.decode_poll(body)
