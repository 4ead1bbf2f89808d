"""Where rows are in HBase; these tests need no HBase."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables.hbase.layout import (
    Place,
    Recorded,
    Salt,
    format_row,
    parse,
    recorded_format,
    recorded_shards,
)
from tables.hbase.writes import HBaseBatch
from tables.keys import after_prefix, metadata_key, prefix, topic_start
from tables.store import ALL_TABLES, BOUND, MESSAGE, METADATA, TRANSACTION
from tms.core.errors import StoreFormatUnknown, StoreSharded
from tms.core.text.store_url import url_of_shard
from tms.core.values.shards import OneShard, ShardBy, Sharding
from tms.core.values.topic import TopicId

KEYS = st.binary(min_size=1, max_size=6) | st.sampled_from([b"a:b:c", b"a:b:d", b"a:c:", b"::"])
TOPICS = st.sampled_from([TopicId("a", "b"), TopicId("a", "bb"), TopicId("default", "x-1")])
BUCKETS = st.integers(1, 128)
FORMAT_1 = b'{"buckets": 4, "format": 1}'


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("hbase://h:9090/tms", Place("h", 9090, "tms", None)),
        ("hbase://10.0.0.1:1/a:b_c?buckets=16", Place("10.0.0.1", 1, "a:b_c", 16)),
        ("hbase://[::1]:9090/t", Place("::1", 9090, "t", None)),
    ],
)
def test_a_url_names_a_place(url: str, place: Place) -> None:
    assert parse(url) == place


@pytest.mark.parametrize(
    "url",
    [
        *("hbase://h/tms", "hbase://h:9090", "hbase://h:9090/", "hbase://:9090/t", "memory:"),
        *("hbase://h:9090/t?bucket=1", "hbase://h:9090/t?buckets=0", "hbase://h:9090/t?buckets=x"),
        *("hbase://h:9090/t?buckets=129", "hbase://h:99999/t", "hbase://h:9090/t/u", "hbase://"),
    ],
)
def test_another_url_is_refused_with_the_expected_form(url: str) -> None:
    with pytest.raises(ValueError, match="give hbase://HOST:PORT/PREFIX"):
        parse(url)


def test_tables_are_named_after_the_prefix() -> None:
    assert parse("hbase://h:1/ns:tms").name_of(MESSAGE) == b"ns:tms_message"


@given(topic=TOPICS, generation=st.integers(1, 2**31 - 1), rest=st.binary(), buckets=BUCKETS)
def test_all_rows_of_a_topic_are_in_one_bucket_and_scanned_there(
    topic: TopicId, generation: int, rest: bytes, buckets: int
) -> None:
    salt = Salt(MESSAGE, buckets)
    start = prefix(topic, generation)

    assert topic_start(start + rest) == metadata_key(topic)
    assert salt.of(start + rest) == salt.of(metadata_key(topic))
    [(first, last)] = salt.ranges(start + rest[:10], after_prefix(start))
    assert first == salt.of(start) + start + rest[:10]
    assert last == salt.of(start) + after_prefix(start)


@given(key=KEYS, start=KEYS, stop=KEYS, buckets=BUCKETS, table=st.sampled_from(ALL_TABLES))
def test_a_key_is_in_the_ranges_where_it_is_between_the_ends(
    key: bytes, start: bytes, stop: bytes, buckets: int, table: str
) -> None:
    salt = Salt(table, buckets)
    row = salt.of(key) + key
    covering = [r for r in salt.ranges(start, stop) if r[0] <= row < r[1]]

    assert len(covering) == (start <= key < stop)


def test_tables_without_salt_have_one_bucket_and_no_splits() -> None:
    for table in (METADATA, TRANSACTION):
        assert Salt(table, 8).split_keys() == []
    assert Salt(MESSAGE, 4).split_keys() == [b"\x01", b"\x02", b"\x03"]


@pytest.mark.parametrize("table", [MESSAGE, BOUND])
def test_a_batch_has_each_row_in_the_bucket_of_its_key(table: str) -> None:
    salt = Salt(table, 8)
    keys = [b"message:" + start for start in (b"", b"\x01", b"\x02a:b:\x00", b"\x02a:b:\x01")]
    keys += [b"a:b:\x00", b"a:b:\x01", b"a:c:", b"copy:a:b:", b"lease"]
    rows = [salt.of(key) + key for key in keys]
    puts, deletes = HBaseBatch({table: salt}), HBaseBatch({table: salt})
    puts.put_rows(table, [(key, b"") for key in keys])
    deletes.delete_rows(table, keys)

    assert [list(run.rows) for run in puts.runs] == [rows]
    assert [list(run.rows) for run in deletes.runs] == [rows]


def test_buckets_are_those_recorded() -> None:
    assert recorded_format(Place("h", 1, "p", None), format_row(4)).buckets == 4
    assert recorded_format(Place("h", 1, "p", 4), format_row(4)).buckets == 4
    assert recorded_format(Place("h", 1, "p", 4), FORMAT_1).buckets == 4


def test_a_store_is_of_the_present_format_with_the_features_that_were_used() -> None:
    place = Place("h", 1, "p", None)
    assert format_row(4) == b'{"buckets": 4, "format": 2}'
    assert format_row(4, ["groups"]) == b'{"buckets": 4, "features": ["groups"], "format": 3}'
    assert not recorded_format(place, FORMAT_1).is_raised
    for features in ((), ("groups",)):
        found = recorded_format(place, format_row(4, features))
        assert found == Recorded(4, frozenset(features), is_raised=True)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (format_row(5), r"it was created with 5 buckets.*give \?buckets=5 or none"),
        (None, "`tms init` creates one"),
        (b"", "`tms init` creates one"),
        (b"[1]", "`tms init` creates one"),
        (b'{"buckets": 4, "format": 4}', "format=4, known=3"),
        (b'{"buckets": 4, "format": 0}', "format=0, known=3"),
        (b'{"buckets": 4, "format": true}', "format=True, known=3"),
        (b'{"buckets": 4, "features": [1], "format": 3}', "unknown=.1"),
        (b'{"buckets": 4, "features": [1, "x"], "format": 3}', "`tms init` creates one"),
        (b'{"buckets": 4, "features": 1, "format": 3}', "`tms init` creates one"),
        (b'{"buckets": 4, "features": ["x", "groups"], "format": 3}', "unknown=.'x'.*a later"),
        (b'{"buckets": 4, "features": ["groups"], "format": 2}', "unknown=.'features'"),
        (b'{"buckets": 4, "by": "topic", "format": 3, "of": 1, "shards": 4}', "unknown=.'of'"),
        (b'{"by": "topic", "format": 3, "shards": 4}', "`tms init` creates one"),
        (b'{"buckets": 4, "by": "topic", "format": 2, "shard": 1, "shards": 4}', "'by', 'shard',"),
        (b'{"by": "hash", "format": 3, "shards": 4}', "does not support such shards.*by=hash"),
        (b'{"by": "topic", "format": 3, "shards": 65}', "such shards.*shards=65"),
        (b'{"by": "topic", "format": 3, "shards": 1}', "such shards"),
        (b'{"by": "topic", "format": 3, "shards": "4"}', "such shards"),
        (b'{"by": ["topic"], "format": 3, "shards": 4}', "such shards"),
        (b'{"by": "topic", "format": 3}', "such shards"),
        (b'{"format": 3, "shards": 4}', "such shards"),
        (b'{"buckets": 4, "by": "topic", "format": 3, "shard": 4, "shards": 4}', "such shards"),
        (b'{"buckets": 4, "by": "topic", "format": 3, "shard": -1, "shards": 4}', "such shards"),
        (b'{"buckets": 4, "by": "topic", "format": 3, "shard": true, "shards": 4}', "such shards"),
        (b'{"buckets": 4, "by": "topic", "format": 3, "shard": 1}', "such shards"),
        (b'{"by": "topic", "format": 3, "shard": 1, "shards": 4}', "`tms init` creates one"),
    ],
)
def test_what_is_recorded_otherwise_is_refused(row: bytes | None, said: str) -> None:
    with pytest.raises(StoreFormatUnknown, match=said):
        recorded_format(Place("h", 1, "p", 4), row)


WHOLE = b'{"buckets": 1, "by": "namespace", "format": 3, "shards": 16}'
SHARD_3 = b'{"buckets": 1, "by": "namespace", "format": 3, "shard": 3, "shards": 16}'


def test_a_store_with_shards_is_of_them_all_and_has_no_rows_of_its_own() -> None:
    place = Place("h", 1, "p", None)
    assert format_row(1, shard=Sharding(16)) == WHOLE
    assert recorded_shards(place, WHOLE) == Sharding(16)
    with pytest.raises(StoreSharded) as refused:
        recorded_format(place, WHOLE)
    assert refused.value.detail == {"prefix": "p", "by": "namespace", "shards": 16}
    for row in (None, b"", SHARD_3, FORMAT_1, format_row(4)):
        assert recorded_shards(place, row) is None


def test_a_shard_says_which_it_is_whatever_features_it_gets() -> None:
    place, shard = Place("h", 1, "p.3", None), OneShard(3, Sharding(16))
    assert format_row(1, shard=shard) == SHARD_3
    assert recorded_format(place, SHARD_3) == Recorded(1, frozenset(), is_raised=True, shard=shard)
    by_topic = OneShard(0, Sharding(2, ShardBy.TOPIC))
    row = format_row(4, ["groups"], by_topic)
    assert row == (
        b'{"buckets": 4, "by": "topic", "features": ["groups"], "format": 3, '
        b'"shard": 0, "shards": 2}'
    )
    assert recorded_format(place, row).shard == by_topic


def test_a_shard_is_beside_its_store() -> None:
    for url in ("hbase://h:1/tms", "hbase://h:1/ns:tms?buckets=4"):
        assert parse(url_of_shard(url, 12)) == parse(url).of_shard(12)
    assert parse("hbase://h:1/tms").of_shard(3).name_of(MESSAGE) == b"tms.3_message"
