"""Rows of any age and generation, and the ones that cleanup's policy keeps."""

from hypothesis import strategies as st

from cleanup import policy
from cleanup.policy import Decision
from tables.keys import payload_pointer_of, payload_prefix, prefix, prefix_of
from tables.metadata_table import StoreMetadataTable
from tables.store import MESSAGE, PAYLOAD, Store
from tms.core.limits import Limits
from tms.core.values.entries import PLAIN
from tms.core.values.message import KEY, KEY_BYTES
from tms.core.values.topic import TopicId, TopicMetadata

NOW_MS = 1_800_000_000_000
TTL_S = 60
DAY_MS = 86_400_000
LIMITS = Limits(cleanup_slice_rows=2)
WRITABLE_MS = (LIMITS.transaction_lifetime_s_max + LIMITS.cleanup_grace_s) * 1000
AGES_MS = st.sampled_from([0, 1, 59_999, 60_000, 60_001, 61_000, DAY_MS, 3 * DAY_MS])
GENERATIONS = st.integers(1, 3)
CURRENT = st.sampled_from([1, 2, 3, -1, -2, -3])
NAMES = ("a", "a-b", "b")
Rows = dict[bytes, bytes]


def all_rows(store: Store, table: str) -> Rows:
    with store.scan(table, b"", b"\xff") as rows:
        return dict(rows)


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, int], Rows, Rows]:
    """The generations of topics; Message rows; Payload rows."""
    topics = draw(st.dictionaries(st.sampled_from(NAMES), CURRENT))
    messages: Rows = {}
    payloads: Rows = {}
    for name in NAMES:
        for generation, age_ms, number in draw(
            st.lists(st.tuples(GENERATIONS, AGES_MS, st.integers(0, 2)), max_size=6)
        ):
            start = prefix(TopicId("ns", name), generation)
            messages[start + KEY.pack(NOW_MS - age_ms, number)] = b"\0x"
        for generation, age_ms, took_ms in draw(
            st.lists(st.tuples(GENERATIONS, AGES_MS, AGES_MS), max_size=6)
        ):
            start = prefix(TopicId("ns", name), generation)
            started_ms, written_ms = NOW_MS - age_ms, NOW_MS - min(age_ms, took_ms)
            if written_ms - started_ms < WRITABLE_MS:
                at = payload_prefix(start, started_ms * 1_000_000)
                payloads[at + KEY.pack(written_ms, 0)] = b"x"
    return topics, messages, payloads


def put(store: Store, topics: dict[str, int], messages: Rows, payloads: Rows) -> None:
    batch = store.batch()
    batch.put_rows(MESSAGE, messages.items())
    batch.put_rows(PAYLOAD, payloads.items())
    store.write(batch)
    for name, generation in topics.items():
        topic = TopicMetadata(TopicId("ns", name), generation, TTL_S, {})
        StoreMetadataTable(store).replace(None, topic)


def kept_messages(topics: dict[str, int], messages: Rows) -> set[bytes]:
    """The keys that the policy keeps, and the greatest of each topic."""
    greatest: dict[TopicId, bytes] = {}
    kept = set()
    for key in sorted(messages):
        topic_id, generation, _ = prefix_of(key)
        current = topics.get(topic_id.name)
        topic = None if current is None else TopicMetadata(topic_id, current, TTL_S, {})
        if current is None or generation <= abs(current):
            greatest[topic_id] = key
        written_ms, _ = KEY.unpack(key[-KEY_BYTES:])
        decision = policy.message(topic, generation, written_ms, PLAIN, invalids=(), now_ms=NOW_MS)
        if decision is Decision.KEEP:
            kept.add(key)
    return kept | set(greatest.values())


def kept_payloads(topics: dict[str, int], payloads: Rows) -> set[bytes]:
    """The keys that the policy keeps, and the greatest key of each pointer still in use."""
    greatest: dict[bytes, bytes] = {}
    kept = set()
    for key in sorted(payloads):
        topic_id, generation, _ = prefix_of(key)
        current = topics.get(topic_id.name)
        topic = None if current is None else TopicMetadata(topic_id, current, TTL_S, {})
        written_ms, _ = KEY.unpack(key[-KEY_BYTES:])
        started_ms = payload_pointer_of(key) // 1_000_000
        if generation == current and NOW_MS - started_ms < WRITABLE_MS:
            greatest[key[:-KEY_BYTES]] = key
        if policy.payload(topic, generation, written_ms, now_ms=NOW_MS) is Decision.KEEP:
            kept.add(key)
    return kept | set(greatest.values())
