"""How far the subscriptions are behind their topics, for Prometheus.

The subscriptions are read from their table at each collection, so that one whose consumer is gone
is reported too, even after a restart. Messages after a position are counted in the cache if it has
them, else in the table. All of it is bounded: `SUBSCRIPTIONS_MAX` subscriptions, `COUNTED_MAX`
messages or `BYTES_MAX` of each, and per collection `ROWS_MAX` rows of the table and about
`SECONDS_MAX`. A subscription that was not reached keeps its numbers, and comes first next time. If
it has none yet, a glance finds its oldest message, and whether there is one.

`tms.messaging.lag_count` says which messages count. If a bound ends the count, it is a minimum.
"""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from tms.core.errors import TmsError
from tms.core.limits import MS_PER_S
from tms.core.values.lags import ReaderLag
from tms.core.values.message import KEY, first_id_at, id_after
from tms.core.values.subscriptions import SubscriptionKind, SubscriptionPosition
from tms.core.values.table_rows import StoredPosition
from tms.core.values.topic import TopicMetadata
from tms.messaging.lag_count import CountBounds, LagCount
from tms.messaging.loaded_topics import TopicState
from tms.messaging.store_runtime import StoreRuntime
from tms.messaging.traffic import OTHER
from tms.messaging.visibility import View
from tms.transactions.journal import TransactionJournal

SUBSCRIPTIONS_MAX = 10_000
COUNTED_MAX = 10_000
BYTES_MAX = 32 * 1024 * 1024
ROWS_MAX = 20_000
SECONDS_MAX = 0.5
_GLANCED = 20
"""The rows that a glance counts of a subscription whose turn has not come yet."""

_log = logging.getLogger(__name__)
_Name = tuple[bytes, str]
"""The prefix of a topic's generation, and the name of a subscription."""


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a subscription is behind."""

    messages: int
    first_ms: int | None
    """When the first message after its position was published; None if there is none."""
    is_at_least: bool
    """Whether a bound ended the counting."""


def reader_lag(position: SubscriptionPosition, lag: Lag, now_ms: int) -> ReaderLag:
    """Return a lag in the form that operators see."""
    return ReaderLag(
        namespace=position.topic_id.namespace,
        topic=position.topic_id.name,
        name=position.name,
        kind=position.kind,
        messages=lag.messages,
        seconds=0.0 if lag.first_ms is None else max(0, now_ms - lag.first_ms) / MS_PER_S,
        is_at_least=lag.is_at_least,
    )


class SubscriptionLags:
    """The lags of one store's subscriptions, as last counted."""

    def __init__(
        self,
        engine: StoreRuntime,
        transactions: TransactionJournal | None = None,
    ) -> None:
        """Read through `engine`.

        `transactions` are this server's, None if they are managed elsewhere.
        """
        self._transactions = transactions
        self._tables = engine.tables
        self._threads = engine.threads
        self._clock = engine.clock
        self._series_max = engine.limits.metric_series_max
        self._states = engine.states
        self._lags: dict[_Name, tuple[StoredPosition, Lag | None]] = {}
        """The lag is None if the topic is gone, or the subscription's turn has not come yet."""
        self.shared: list[StoredPosition] = []
        """Groups, whose positions are elsewhere (`tms.messaging.groups.lags`)."""
        self._turn = 0
        """Which one is counted first."""
        self._looking = asyncio.Lock()

    async def refresh(self) -> None:
        """Count again, unless a count is under way. Lags that cannot be read stay as they were."""
        if self._looking.locked():
            return
        async with self._looking:
            try:
                await self._look()
            except TmsError as error:
                _log.warning("cannot read the lags of subscriptions: %s", error)

    async def _look(self) -> None:
        rows = await self._threads.read(self._tables.subscriptions.scan, limit=SUBSCRIPTIONS_MAX)
        self.shared = [each for each in rows if each.position.kind is SubscriptionKind.SHARED]
        before = self._lags
        self._lags = {
            (each.topic_prefix, each.position.name): (
                each,
                before.get((each.topic_prefix, each.position.name), (each, None))[1],
            )
            for each in rows
            if each.position.kind is SubscriptionKind.SINGLE
        }
        ends_ms = self._clock.steady_ms() + SECONDS_MAX * 1000
        await self._count_in_turn(ends_ms)
        await self._glance_at_rest(ends_ms)

    async def _count_in_turn(self, ends_ms: float) -> None:
        """Count the lag of each, from the one whose turn it is, until a bound ends it."""
        rows = ROWS_MAX
        names = list(self._lags)
        self._turn %= max(1, len(names))
        for name in names[self._turn :] + names[: self._turn]:
            if rows <= 0 or self._clock.steady_ms() > ends_ms:
                return
            await asyncio.sleep(0)  # messages in memory are counted without a pause
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

    async def _glance_at_rest(self, ends_ms: float) -> None:
        """Count a little of those whose turn has never come, so that they are reported at all."""
        rows = ROWS_MAX
        for name in [name for name, (_, lag) in self._lags.items() if lag is None]:
            if rows <= 0 or self._clock.steady_ms() > ends_ms:
                return
            await asyncio.sleep(0)
            stored = self._lags[name][0]
            topic, state = await self._topic(stored)
            if topic is not None and topic.generation == stored.generation:
                lag, read = await self._counted(stored, topic, state, _GLANCED, is_glance=True)
                rows -= read
                is_told = lag is not None and (lag.messages > 0 or not lag.is_at_least)
                self._lags[name] = stored, lag if is_told else None

    async def behind(self, stored: StoredPosition, *, is_glance: bool = False) -> Lag | None:
        """Return how far a position is behind, None if its topic is gone."""
        topic, state = await self._topic(stored)
        if topic is None or topic.generation != stored.generation:
            return None
        rows = _GLANCED if is_glance else ROWS_MAX
        return (await self._counted(stored, topic, state, rows, is_glance=is_glance))[0]

    def lags(self) -> list[ReaderLag]:
        """Return the lags as last counted."""
        return [
            reader_lag(stored.position, lag, self._clock.expiry_ms())
            for stored, lag in self._lags.values()
            if lag is not None
        ]

    async def _topic(
        self, stored: StoredPosition
    ) -> tuple[TopicMetadata | None, TopicState | None]:
        topic_id = stored.position.topic_id
        state = self._states.peek(topic_id)
        if state is not None:
            return state.topic, state
        return await self._threads.read(self._tables.metadata.get, topic_id), None

    async def _counted(
        self,
        stored: StoredPosition,
        topic: TopicMetadata,
        state: TopicState | None,
        rows_max: int,
        *,
        is_glance: bool = False,
    ) -> tuple[Lag | None, int]:
        """Return the lag, None if its turn is next, and the number of rows read."""
        oldest = first_id_at(topic.first_live_ms(self._clock.expiry_ms()))
        view = View(None if self._transactions is None else self._transactions.latest())
        count = LagCount(
            self._tables,
            self._threads,
            stored.topic_prefix,
            state=state,
            view=view,
            oldest=oldest,
            cached_from=b"" if state is None else state.cached_from(self._clock),
            caches_runs=self._clock.deleted_ms <= self._clock.expiry_ms(),
        )
        after = stored.position.after
        position = oldest if after is None else max(oldest, id_after(after))
        bounds = CountBounds(messages=COUNTED_MAX, size=BYTES_MAX, rows=rows_max)
        is_whole = await count.count(position, bounds)
        if not is_whole and not is_glance and count.rows >= rows_max and rows_max < ROWS_MAX:
            return None, count.rows  # the next count begins with it
        first_ms = None if count.first_key is None else KEY.unpack(count.first_key)[0]
        return Lag(count.messages, first_ms, is_at_least=not is_whole), count.rows

    def collect(self) -> Iterator[Metric]:
        """Yield the lags as last counted."""
        labels = ("namespace", "topic", "subscription")
        messages = GaugeMetricFamily(
            "tms_subscription_lag_messages",
            "Messages after the position of this subscription, without rolled back ones, counted "
            f"up to {COUNTED_MAX}.",
            labels=labels,
        )
        seconds = GaugeMetricFamily(
            "tms_subscription_lag_seconds",
            "Age of the oldest message after the position of this subscription; 0 if there is "
            "none.",
            labels=labels,
        )
        at_least = GaugeMetricFamily(
            "tms_subscription_lag_at_least",
            "1 if the counting stopped at its bound: there may be more messages.",
            labels=labels,
        )
        now_ms = self._clock.expiry_ms()
        shown = rest_messages = 0
        rest_s, is_rest_at_least = 0.0, False
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
                at_least.add_metric(names, lag.is_at_least)
            else:
                rest_messages += lag.messages
                rest_s = max(rest_s, age_s)
                is_rest_at_least |= lag.is_at_least
        messages.add_metric((OTHER, OTHER, OTHER), rest_messages)
        seconds.add_metric((OTHER, OTHER, OTHER), rest_s)
        at_least.add_metric((OTHER, OTHER, OTHER), is_rest_at_least)
        yield from (messages, seconds, at_least)
