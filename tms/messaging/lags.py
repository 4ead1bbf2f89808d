"""How far the subscriptions are behind their topics, for Prometheus.

The subscriptions are read from their table each time that metrics are asked for, so that one whose
consumer is gone is told of too, also after a restart. What is behind a position is counted in the
cache if it is there, else in the table. All of it is bounded: `SUBSCRIPTIONS_MAX` subscriptions,
`COUNTED_MAX` messages or `BYTES_MAX` of each, and at a time `ROWS_MAX` rows of the table and about
`SECONDS_MAX`. A subscription whose turn does not come keeps its numbers, and comes first next time.

A message counts if its entry is behind the position: rolled back ones do, and what was stored in a
transaction counts as one. What has expired does not.
"""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from tms.core.errors import TmsError
from tms.core.message import KEY, KEY_BYTES, first_id_at, key_after
from tms.core.tables import StoredPosition
from tms.core.topic import TopicMetadata
from tms.messaging.loaded_topics import LoadedTopics, TopicState
from tms.messaging.store_runtime import StoreRuntime
from tms.messaging.traffic import OTHER

SUBSCRIPTIONS_MAX = 10_000
COUNTED_MAX = 10_000
BYTES_MAX = 32 * 1024 * 1024
ROWS_MAX = 20_000
SECONDS_MAX = 0.5
_ROWS_AT_ONCE = 1_000
_BYTES_AT_ONCE = 256 * 1024

_log = logging.getLogger(__name__)
_Name = tuple[bytes, str]
"""The prefix of a topic's generation, and the name of a subscription."""


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a subscription is behind."""

    messages: int
    first_ms: int | None
    """When the first message behind its position was published; None if there is none."""


class SubscriptionLags:
    """The lags of one store's subscriptions, as they were last looked at."""

    def __init__(self, engine: StoreRuntime, states: LoadedTopics) -> None:
        """Read through `engine`; topics are known by `states`."""
        self._tables = engine.tables
        self._threads = engine.threads
        self._clock = engine.clock
        self._series_max = engine.limits.metric_series_max
        self._states = states
        self._lags: dict[_Name, tuple[StoredPosition, Lag | None]] = {}
        """None for one that is of no living topic, or whose turn has not come yet."""
        self._turn = 0
        """Which one is looked at first."""
        self._looking = asyncio.Lock()

    async def refresh(self) -> None:
        """Look again, unless somebody does so now. What cannot be read stays as it was."""
        if self._looking.locked():
            return
        async with self._looking:
            try:
                await self._look()
            except TmsError as error:
                _log.warning("how far subscriptions are behind could not be read: %s", error)

    async def _look(self) -> None:
        found = await self._threads.read(self._tables.subscriptions.scan, limit=SUBSCRIPTIONS_MAX)
        before = self._lags
        self._lags = {
            (each.topic_prefix, each.position.name): (
                each,
                before.get((each.topic_prefix, each.position.name), (each, None))[1],
            )
            for each in found
        }
        ends_ms = self._clock.steady_ms() + SECONDS_MAX * 1000
        rows = ROWS_MAX
        names = list(self._lags)
        self._turn %= max(1, len(names))
        for name in names[self._turn :] + names[: self._turn]:
            if rows <= 0 or self._clock.steady_ms() > ends_ms:
                return
            stored = self._lags[name][0]
            topic, state = await self._topic(stored)
            if topic is None or topic.generation != stored.generation:
                self._lags[name] = stored, None
            else:
                lag, read = await self._counted(stored, topic, state, rows)
                rows -= read
                if lag is None:
                    return
                self._lags[name] = stored, lag
            self._turn += 1

    async def _topic(
        self, stored: StoredPosition
    ) -> tuple[TopicMetadata | None, TopicState | None]:
        topic_id = stored.position.topic_id
        state = self._states.peek(topic_id)
        if state is not None:
            return state.topic, state
        return await self._threads.read(self._tables.metadata.get, topic_id), None

    async def _counted(
        self, stored: StoredPosition, topic: TopicMetadata, state: TopicState | None, rows_max: int
    ) -> tuple[Lag | None, int]:
        """Return how far one is behind, None if `rows_max` were too few, and the rows read."""
        oldest = first_id_at(topic.first_live_ms(self._clock.expiry_ms()))[:KEY_BYTES]
        after = stored.position.after
        key: bytes | None = oldest if after is None else max(oldest, key_after(after[:KEY_BYTES]))
        first: bytes | None = None
        count = rows = size = 0
        while key is not None and count < COUNTED_MAX and size < BYTES_MAX:
            if state is not None and not state.stale and key >= state.cached_from(self._clock):
                cached, first_cached = state.cache.count_from(key)
                count, first = count + cached, first or first_cached
                break
            if rows >= rows_max:
                return None, rows
            entries, key = await self._threads.read(
                self._tables.messages.read,
                stored.topic_prefix,
                key,
                limit=min(_ROWS_AT_ONCE, rows_max - rows, COUNTED_MAX - count),
                bytes_max=_BYTES_AT_ONCE,
            )
            if entries.count and first is None:
                first = entries.key(0)
            count += entries.count
            size += len(entries.items)
            rows += max(1, entries.count)
        first_ms = None if first is None else KEY.unpack(first)[0]
        return Lag(min(count, COUNTED_MAX), first_ms), rows

    def collect(self) -> Iterator[Metric]:
        """Give the lags as they were last looked at."""
        labels = ("namespace", "topic", "subscription")
        messages = GaugeMetricFamily(
            "tms_subscription_lag_messages",
            f"Messages behind the position of this subscription, counted up to {COUNTED_MAX}.",
            labels=labels,
        )
        seconds = GaugeMetricFamily(
            "tms_subscription_lag_seconds",
            "Age of the oldest message behind the position of this subscription; 0 if none is.",
            labels=labels,
        )
        now_ms = self._clock.expiry_ms()
        shown = rest_messages = 0
        rest_s = 0.0
        for stored, lag in self._lags.values():
            if lag is None:
                continue
            age_s = 0.0 if lag.first_ms is None else max(0, now_ms - lag.first_ms) / 1000
            if shown < self._series_max:
                shown += 1
                topic_id = stored.position.topic_id
                names = (topic_id.namespace, topic_id.name, stored.position.name)
                messages.add_metric(names, lag.messages)
                seconds.add_metric(names, age_s)
            else:
                rest_messages += lag.messages
                rest_s = max(rest_s, age_s)
        messages.add_metric((OTHER, OTHER, OTHER), rest_messages)
        seconds.add_metric((OTHER, OTHER, OTHER), rest_s)
        yield from (messages, seconds)
