"""Bodies of our media types; schemathesis generates them once this module is imported."""

import schemathesis
from hypothesis import strategies as st

from tests.api.rest import AVRO_TYPE, POINTER, avro_poll, avro_publish
from tests.arrow.bodies import encode_payloads
from tms.wire.media_types import ARROW_TYPE

_payloads = st.lists(st.binary(max_size=20), max_size=3)
schemathesis.openapi.media_type(
    AVRO_TYPE,
    st.one_of(
        st.binary(max_size=100),
        st.builds(
            lambda payloads, pointer: avro_publish(*payloads, pointer=pointer),
            _payloads,
            st.sampled_from((None, POINTER, 0, -1)),
        ),
        st.builds(
            avro_poll, start_from=st.none() | st.binary(max_size=21) | st.integers(-1, 2**62)
        ),
    ),
)


schemathesis.openapi.media_type(
    ARROW_TYPE, st.binary(max_size=100) | st.builds(encode_payloads, _payloads)
)


@schemathesis.serializer(AVRO_TYPE, ARROW_TYPE)
def as_it_is(_: schemathesis.SerializationContext, body: bytes) -> bytes:
    return body
