"""The cache: complete from its floor on, within its budget, and inverted by rollbacks."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.scale import scaled
from tms.core.values.message import KEY, MessageBlock
from tms.messaging import cache
from tms.messaging.cache import CacheBudget, TopicCache

START = KEY.pack(1_000, 0)
PAYLOADS = st.lists(st.binary(max_size=60), min_size=1, max_size=4)
POINTERS = st.none() | st.integers(1, 3)


def keys_of(first: int, count: int) -> list[bytes]:
    return [KEY.pack(1_000, number) for number in range(first, first + count)]


def read_on(topic: TopicCache, key: bytes, *, limit: int, bytes_max: int) -> list[bytes]:
    """Return the keys of all entries from `key` on, slice by slice."""
    found: list[bytes] = []
    next_key: bytes | None = key
    while next_key is not None:
        entries, start, stop, next_key = topic.slice(next_key, limit=limit, bytes_max=bytes_max)
        assert stop - start <= limit
        assert next_key is None or stop > start
        found += [entries.key(index) for index in range(start, stop)]
    return found


class CacheMachine(RuleBasedStateMachine):
    """Two topics in one budget, each with the list of entries added to it."""

    @initialize(bytes_max=st.sampled_from([0, 1_500, 5_000, 100_000]))
    def start(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.budget = CacheBudget(bytes_max)
        self.caches = [TopicCache(self.budget, START) for _ in range(2)]
        self.added: list[list[tuple[bytes, int]]] = [[], []]
        self.next = 0

    @rule(which=st.integers(0, 1), payloads=PAYLOADS, pointer=POINTERS)
    def append(self, which: int, payloads: list[bytes], pointer: int | None) -> None:
        keys = keys_of(self.next, len(payloads))
        self.next += len(payloads)
        self.caches[which].append(keys, payloads, sum(map(len, payloads)), pointer)
        self.added[which] += [(key, pointer or 0) for key in keys]

    @rule(which=st.integers(0, 1), pointer=st.integers(1, 3))
    def append_reference(self, which: int, pointer: int) -> None:
        [key] = keys_of(self.next, 1)
        self.next += 1
        self.caches[which].append_reference(key, pointer)
        self.added[which].append((key, pointer))

    @rule(which=st.integers(0, 1))
    def restart(self, which: int) -> None:
        self.caches[which].restart(KEY.pack(1_000, self.next))

    @rule(which=st.integers(0, 1), ends=st.tuples(st.integers(0, 99), st.integers(0, 99)))
    def invert(self, which: int, ends: tuple[int, int]) -> None:
        first, last = (KEY.pack(1_000, number) for number in sorted(ends))
        self.caches[which].invert(first, last, 2)
        self.added[which] = [
            (key, -2 if pointer == 2 and first <= key <= last else pointer)
            for key, pointer in self.added[which]
        ]

    @rule(
        which=st.integers(0, 1),
        number=st.integers(0, 99),
        limit=st.integers(1, 5),
        bytes_max=st.sampled_from([1, 100, 100_000]),
    )
    def read(self, which: int, number: int, limit: int, bytes_max: int) -> None:
        topic = self.caches[which]
        key = max(KEY.pack(1_000, number), topic.floor)
        expected = [added for added, _ in self.added[which] if added >= key]
        assert read_on(topic, key, limit=limit, bytes_max=bytes_max) == expected

    @rule()
    def it_is_complete_from_its_floor_on(self) -> None:
        """Reading encodes pending entries, so this is not checked after each step."""
        for topic, added in zip(self.caches, self.added, strict=True):
            expected = [(key, pointer) for key, pointer in added if key >= topic.floor]
            entries_of = [
                (entries.key(index), entries.pointers[index] if entries.pointers else 0)
                for entries in map(topic._entries, topic._blocks)
                for index in range(entries.count)
            ]
            assert entries_of == expected
            for entries in map(topic._entries, topic._blocks):
                written = [pointer for pointer in entries.pointers or () if pointer]
                least, greatest = entries.bounds or (0, 0)
                assert all(least <= pointer <= greatest for pointer in written)

    def teardown(self) -> None:
        if hasattr(self, "budget"):
            self.it_is_complete_from_its_floor_on()

    @invariant()
    def it_is_within_its_budget(self) -> None:
        if not hasattr(self, "budget"):
            return
        weights = sum(block.weight for topic in self.caches for block in topic._blocks)
        assert self.budget.used_bytes == weights <= self.bytes_max


@pytest.fixture(autouse=True)
def _tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "BLOCK_BYTES", 150)


class TestCacheMachine(CacheMachine.TestCase):  # type: ignore[misc,valid-type]
    settings = settings(max_examples=scaled(150), stateful_step_count=30)


def test_a_slice_is_in_the_form_of_a_block() -> None:
    topic = TopicCache(CacheBudget(100_000), START)
    topic.append(keys_of(0, 2), [b"a", b"b" * 200], 201, None)
    entries, start, stop, next_key = topic.slice(START, limit=10, bytes_max=1_000_000)

    assert (start, stop, next_key) == (0, 2, None)
    block = MessageBlock(entries.count, bytes(entries.items))
    assert [(m.id, m.payload) for m in block] == [
        (key + bytes(10), payload)
        for key, payload in zip(keys_of(0, 2), [b"a", b"b" * 200], strict=True)
    ]


def test_a_retired_cache_is_complete_from_nowhere_on() -> None:
    topic = TopicCache(CacheBudget(100_000), START)
    topic.append(keys_of(0, 1), [b"a"], 1, None)
    topic.retire()

    assert topic.floor > b"\xff" * 10


@given(st.lists(st.integers(0, 400), min_size=1, max_size=30), st.integers(1, 500))
def test_a_slice_has_no_more_than_the_bytes_asked_for_save_its_last(
    sizes: list[int], bytes_max: int
) -> None:
    topic = TopicCache(CacheBudget(10_000_000), START)
    topic.append(keys_of(0, len(sizes)), [bytes(size) for size in sizes], sum(sizes), None)
    entries, start, stop, _ = topic.slice(START, limit=100, bytes_max=bytes_max)

    assert entries.offsets is not None
    assert stop > start
    assert entries.offsets[stop - 1] - entries.offsets[start] < bytes_max
