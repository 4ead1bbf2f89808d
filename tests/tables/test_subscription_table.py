"""The value of a subscription's row: a position, or a group with its settings."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables.keys import prefix
from tables.memory import MemoryStore
from tables.store import SUBSCRIPTION
from tables.store_tables import StoreTables
from tables.subscription_table import decoded, encoded
from tests.contracts.store_contract import put, rows_of
from tms.core.errors import StoreCorrupt, StoreFormatUnknown
from tms.core.values.group_settings import GroupSettings, Order
from tms.core.values.subscriptions import SharedSubscription, SubscriptionKind, SubscriptionPosition
from tms.core.values.topic import TopicId

TOPIC = TopicId("default", "orders")
START = prefix(TOPIC, 1)
VERSION = 1_790_000_000_000_007
WORKED = (
    b"\x00\x06\x5b\xfe\xda\x25\xe0\x07\x02"
    b'{"after":null,"created":1790000000000000,"lease_s":30,"member_max":1000,"open_max":10000,'
    b'"order":"key","paused":false,"retry_s":1,"retry_s_max":60}'
)
NUMBERS = st.integers(1, 2**53)
IDS = st.none() | st.binary(min_size=20, max_size=20)
SETTINGS = st.builds(
    GroupSettings,
    order=st.sampled_from(Order),
    lease_s=NUMBERS,
    retry_s=NUMBERS,
    retry_s_max=NUMBERS,
    open_max=NUMBERS,
    member_max=NUMBERS,
    paused=st.booleans(),
    rate=st.just(0) | NUMBERS,
    attempts_max=st.just(0) | NUMBERS,
    dead_letter=st.just("") | st.text(max_size=5),
    dead_letters_max=st.just(100) | NUMBERS,
    filter=st.sampled_from(["", "key exists"]),
)


BY_KEY = GroupSettings(order=Order.KEY)


def group(
    settings: GroupSettings = BY_KEY,
    after: bytes | None = None,
    version: int = VERSION,
    created: int = VERSION - 7,
) -> SharedSubscription:
    return SharedSubscription(
        topic_id=TOPIC, name="g", after=after, version=version, created=created, settings=settings
    )


def test_the_bytes_of_a_group_are_these() -> None:
    assert encoded(group()) == WORKED
    assert decoded(TOPIC, b"g", WORKED) == group()
    assert group().kind is SubscriptionKind.SHARED


def test_only_later_settings_that_are_used_are_stored() -> None:
    """An earlier version refuses a group with settings that it does not know."""
    at_rate = encoded(group(GroupSettings(order=Order.KEY, rate=5)))
    assert at_rate.replace(b'"rate":5,', b"") == WORKED
    dead = encoded(group(GroupSettings(order=Order.KEY, dead_letter="d")))
    assert b'"rate"' not in dead
    assert b'"filter"' not in dead
    assert b'"dead_letters_max":100' in dead


@given(settings=SETTINGS, after=IDS, version=NUMBERS, created=NUMBERS)
def test_a_group_is_read_as_it_was_put(
    settings: GroupSettings, after: bytes | None, version: int, created: int
) -> None:
    put_one = group(settings, after, version, created)

    assert decoded(TOPIC, b"g", encoded(put_one)) == put_one


@given(after=IDS, version=NUMBERS)
def test_a_position_is_as_it_always_was(after: bytes | None, version: int) -> None:
    position = SubscriptionPosition(TOPIC, "p", after, version)
    value = struct.pack(">q", version) + (after or b"")

    assert encoded(position) == value
    assert decoded(TOPIC, b"p", value) == position
    assert decoded(TOPIC, b"p", value).kind is SubscriptionKind.SINGLE


def value_of(**changes: object) -> bytes:
    told = {**json.loads(WORKED[9:]), **changes}
    return WORKED[:9] + json.dumps({k: v for k, v in told.items() if v != "gone"}).encode()


def test_a_setting_that_is_missing_has_its_default() -> None:
    assert decoded(TOPIC, b"g", value_of(retry_s="gone", order="gone")) == group(GroupSettings())


def test_a_group_with_a_setting_of_later_is_refused_and_no_other() -> None:
    tables = StoreTables(MemoryStore())
    put(tables.store, SUBSCRIPTION, (START + b"g", value_of(later="x", depth="d")))
    put(tables.store, SUBSCRIPTION, (START + b"h", WORKED))
    later, known = tables.subscriptions.read(TOPIC, START)
    assert isinstance(later, SharedSubscription)
    assert isinstance(known, SharedSubscription)
    known.check_known()
    with pytest.raises(StoreFormatUnknown, match="use that version") as refused:
        later.check_known()

    assert refused.value.detail["unknown"] == ["depth", "later"]
    batch = tables.batch()
    tables.subscriptions.delete(batch, START, later)
    tables.write(batch)
    assert [key for key, _ in rows_of(tables.store, SUBSCRIPTION)] == [START + b"h"]
    with pytest.raises(AssertionError):
        encoded(later)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        WORKED[:7],
        WORKED[:9],
        WORKED[:-1],
        WORKED[:8] + b"\x03" + WORKED[9:],
        value_of(order="sometimes"),
        value_of(after="xx"),
        value_of(after=7),
        value_of(created="gone"),
        value_of(lease_s="30"),
        value_of(paused=1),
        value_of(open_max=True),
        WORKED[:9] + b"[]",
        WORKED[:9] + b"\xff",
    ],
)
def test_another_value_is_damage(value: bytes) -> None:
    with pytest.raises(StoreCorrupt):
        decoded(TOPIC, b"g", value)
