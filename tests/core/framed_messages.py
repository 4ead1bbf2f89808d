"""Messages with keys and headers, drawn by hypothesis."""

from typing import Any

from hypothesis import strategies as st

from tms.core.values.message import Message

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
HEADERS = st.dictionaries(TEXT, st.binary(max_size=20), max_size=4)
KEYS = st.none() | st.binary(max_size=100)
NO_ID, YES, NO = st.just(b""), st.just(True), st.just(False)
CONTENTS = st.builds(Message, st.binary(max_size=200), KEYS, HEADERS, NO_ID, NO) | st.builds(
    Message, st.just(b""), KEYS, HEADERS, NO_ID, YES
)
"""Messages as published, without an id: with and without a frame, and tombstones."""
OF_ONE_FORM = st.tuples(
    st.integers(0, 70), st.integers(0, 70), st.sampled_from([None, "n", "trace-id"])
).flatmap(
    lambda form: st.lists(
        st.builds(
            Message,
            st.binary(min_size=form[0], max_size=form[0]),
            st.binary(min_size=form[1], max_size=form[1]),
            st.just({} if form[2] is None else {form[2]: b"value"}),
            NO_ID,
            NO,
        ),
        min_size=3,
        max_size=40,
    )
)
"""Messages whose parts have the same lengths, as is often the case for one publisher."""
SIMILAR = st.lists(
    st.builds(
        Message,
        st.binary(max_size=150),
        st.none() | st.binary(max_size=70),
        st.just({})
        | st.builds(dict, st.tuples(st.tuples(st.sampled_from("na"), st.binary(max_size=70)))),
        NO_ID,
        NO,
    ),
    max_size=40,
)
"""Messages with the same header names but parts of different lengths, like most."""
SMALL = st.builds(
    Message,
    st.binary(max_size=20),
    st.none() | st.binary(max_size=3),
    st.dictionaries(st.sampled_from("na"), st.binary(max_size=5), max_size=1),
    NO_ID,
    NO,
) | st.builds(Message, st.just(b""), st.binary(max_size=3), st.just({}), NO_ID, YES)
"""Short messages, with and without a frame, and tombstones."""


def row_of(message: Message) -> dict[str, Any]:
    """Return the fields of a message in version 2 of the Avro schema, without its id."""
    payload = None if message.is_tombstone else message.payload
    return {"key": message.key, "headers": dict(message.headers), "payload": payload}
