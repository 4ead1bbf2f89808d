"""Answers from the cache equal, byte for byte, answers encoded from the table."""

from itertools import groupby

from hypothesis import given, settings
from hypothesis import strategies as st

from tables.memory import MemoryStore
from tables.store_tables import StoreTables
from tests.core.framed_messages import CONTENTS, OF_ONE_FORM, SIMILAR, row_of
from tests.scale import scaled
from tests.wire.avro_library import written
from tms.arrow.polled import ARROW
from tms.core.values.frame import bodies_of
from tms.core.values.message import KEY, NO_PAYLOAD_KEY, Message, MessageBlock
from tms.core.values.topic import TopicId
from tms.messaging.cache import CacheBudget, TopicCache
from tms.wire.avro_bodies import AVRO, CONSUME_RESPONSE_SCHEMA
from tms.wire.avro_frames import AVRO_FRAMES, CONSUME_FRAMES_SCHEMA
from tms.wire.bodies import MessagesFormat
from tms.wire.json_bodies import JSON

START = KEY.pack(1_000, 0)
ALL_FORMATS: tuple[MessagesFormat, ...] = (AVRO, AVRO_FRAMES, JSON, ARROW)
PUBLISHES = st.lists(
    st.tuples(
        st.lists(CONTENTS, min_size=1, max_size=8) | OF_ONE_FORM | SIMILAR.filter(bool),
        st.sampled_from([None, None, 7]),
    ),
    min_size=1,
    max_size=4,
)


def answers(block: MessageBlock) -> list[bytes]:
    return [each.encode_block(block, first=True) for each in ALL_FORMATS]


def of_library(messages: list[Message]) -> list[bytes]:
    """Return blocks in both Avro versions as the library writes them."""
    payloads = [{"id": each.id, "payload": each.payload} for each in messages]
    runs: list[dict[str, object]] = []
    for is_framed, group in groupby(messages, lambda each: each.body()[1]):
        of_group = list(group)
        if not is_framed:
            rows = [{"id": each.id, "payload": each.payload} for each in of_group]
            runs.append({"messages": rows, "framed": []})
        else:
            if not runs or runs[-1]["framed"]:
                runs.append({"messages": []})
            runs[-1]["framed"] = [{"id": each.id, **row_of(each)} for each in of_group]
    return [
        written(CONSUME_RESPONSE_SCHEMA, payloads).removesuffix(b"\x00"),
        written(CONSUME_FRAMES_SCHEMA, runs).removesuffix(b"\x00"),
    ]


@settings(max_examples=scaled(60))
@given(PUBLISHES, st.data())
def test_cache_table_and_library_say_the_same(
    publishes: list[tuple[list[Message], int | None]], data: st.DataObject
) -> None:
    tables = StoreTables(MemoryStore())
    prefix = tables.prefix(TopicId("default", "t"), 1)
    budget = CacheBudget(10_000_000)
    cache = TopicCache(budget, START)
    expected: list[Message] = []
    for messages, pointer in publishes:
        keys = [KEY.pack(1_000, len(expected) + number) for number in range(len(messages))]
        bodies = bodies_of([message.body() for message in messages])
        batch = tables.batch()
        tables.messages.append(batch, prefix, keys, bodies, pointer)
        tables.write(batch)
        cache.append(keys, bodies, sum(map(len, bodies)), pointer)
        for key, message in zip(keys, messages, strict=True):
            expected.append(message._replace(id=key + NO_PAYLOAD_KEY))
        if data.draw(st.booleans()):
            cache.slice(START, limit=1, bytes_max=1)  # encodes the entries added so far
    start = data.draw(st.integers(0, len(expected) - 1))
    limit = data.draw(st.integers(1, len(expected)))

    key = expected[start].id[: len(START)]
    found = cache.slice(key, limit=limit, bytes_max=10_000_000)
    cached = found.entries.block(found.start, found.stop)
    stored = tables.messages.read(prefix, key, limit=limit, bytes_max=10_000_000)[0]
    asked = expected[start : start + limit]

    assert list(cached) == asked
    assert answers(cached) == answers(stored.block(0, stored.count))
    assert answers(cached) == answers(MessageBlock.of(asked))
    assert answers(cached)[:2] == of_library(asked)
    assert budget.used_bytes > len(found.entries.items)
