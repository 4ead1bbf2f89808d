"""Records of the log: what is written can be read, and anything else is reported."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.contracts import METADATA, RULE_SETS
from tms.core.services.schemas import SchemaReference
from tms.core.values.message import Message
from tms.registry.state.records import (
    ConfigWritten,
    CountersWritten,
    Key,
    ModeWritten,
    Origin,
    Purged,
    Record,
    SchemaWritten,
    Unreadable,
    VersionDeleted,
    decode,
    encode,
    key_of,
)
from tms.registry.state.schema import Schema
from tms.registry.state.settings import Config, Level, Mode

TEXTS = st.text(st.characters(codec="utf-8"))
NUMBERS = st.integers(1, 2**31 - 1)
SCHEMAS = st.builds(
    Schema,
    st.sampled_from(("AVRO", "JSON")),
    TEXTS,
    st.lists(st.builds(SchemaReference, TEXTS, TEXTS, NUMBERS)).map(tuple),
    st.none() | METADATA,
    st.none() | RULE_SETS,
)
CONFIGS = st.builds(
    Config,
    st.none() | st.sampled_from(list(Level)),
    st.none() | st.booleans(),
    st.none() | TEXTS,
    st.none() | TEXTS,
    st.none() | st.booleans(),
    st.none() | METADATA,
    st.none() | METADATA,
    st.none() | RULE_SETS,
)
RECORDS = st.one_of(
    st.builds(SchemaWritten, TEXTS, NUMBERS, NUMBERS, SCHEMAS),
    st.builds(VersionDeleted, TEXTS, NUMBERS),
    st.builds(ConfigWritten, TEXTS, CONFIGS),
    st.builds(ModeWritten, TEXTS, st.sampled_from(list(Mode))),
    st.builds(CountersWritten, st.dictionaries(TEXTS, NUMBERS), st.frozensets(TEXTS)),
)
ORIGINS = st.builds(Origin, st.integers(1, 2**60), st.text("0123456789abcdef", min_size=1))
ID = (1_700_000_000_000).to_bytes(8) + bytes(12)


@given(RECORDS, ORIGINS)
def test_a_record_is_read_as_it_was_written(record: Record, origin: Origin) -> None:
    message = encode(record, origin)._replace(id=ID)
    assert message.key is not None

    entry = decode(message)

    assert entry.origin == origin
    assert entry.record == record
    assert entry.written_ms == 1_700_000_000_000
    key = json.loads(message.key)
    assert (
        message.key
        == json.dumps(key, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        .replace("\x7f", "\x7f")
        .encode()
    )


@given(RECORDS, ORIGINS)
def test_a_tombstone_names_the_very_key(record: Record, origin: Origin) -> None:
    written = encode(record, origin)
    purged = Purged(key_of(record, origin))

    stone = encode(purged, origin)

    assert stone.is_tombstone
    assert stone.key == written.key
    assert decode(stone._replace(id=ID)).record == purged
    assert decode(stone._replace(id=ID)).origin is None


def test_a_schema_has_this_form() -> None:
    """The form must never change, because it is on disk."""
    schema = Schema("AVRO", '"int"', (SchemaReference("n", "other", 3),))
    message = encode(SchemaWritten("s", 2, 7, schema), Origin(5, "00ff"))
    assert message.key == (
        b'{"keytype":"SCHEMA","node":"00ff","sequence":5,"subject":"s","version":2}'
    )
    assert message.payload == (
        b'{"id":7,"references":[{"name":"n","subject":"other","version":3}],"schema":"\\"int\\""}'
    )
    counters = encode(CountersWritten({".": 8}), Origin(6, "00ff"))
    assert counters.key == b'{"keytype":"COUNTERS"}'
    assert counters.payload == b'{"next_ids":{".":8},"node":"00ff","sequence":6}'


@pytest.mark.parametrize(
    "message",
    [
        Message(b"{}", None),
        Message(b"{}", b""),
        Message(b"{}", b"[]"),
        Message(b"{}", b'{"keytype":"SCHEMA"}'),
        Message(b"{}", b'{"keytype":"NOSUCH","node":"a","sequence":1,"subject":"s"}'),
        Message(b"{", b'{"keytype":"CONFIG","node":"a","sequence":1,"subject":"s"}'),
        Message(b'{"mode":"x"}', b'{"keytype":"MODE","node":"a","sequence":1,"subject":"s"}'),
        Message(b"\xff", b'{"keytype":"COUNTERS"}'),
    ],
)
def test_what_is_not_a_record_is_reported(message: Message) -> None:
    with pytest.raises(Unreadable):
        decode(message._replace(id=ID))


def test_keys_have_no_fields_that_say_nothing() -> None:
    assert encode(Purged(Key("COUNTERS")), Origin(1, "a")).key == b'{"keytype":"COUNTERS"}'
