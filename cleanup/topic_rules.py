"""The rules of topics for cleanup other than the ttl: compaction and bounds.

Only the process that serves the topics does this: `tms prune` and Spark's job never do.
"""

from collections.abc import Generator

from cleanup.compact_topics import CompactTopics
from cleanup.fates import Fates
from cleanup.loop_calls import TopicCalls
from cleanup.ranges import Step
from cleanup.retention import KeptTopics
from tables.store import Store
from tms.core.limits import Limits
from tms.core.runtime.clock import Clock
from tms.core.values.topic import TopicMetadata


class TopicRules:
    """Applies the properties of one store's topics. Used from one thread."""

    def __init__(self, store: Store, calls: TopicCalls, limits: Limits, clock: Clock) -> None:
        """Work in `store`, which the services behind `calls` use."""
        self._calls = calls
        self._limits = limits
        self._clock = clock
        self._compact = CompactTopics(store, calls, limits, clock)
        self._kept = KeptTopics(store, calls, limits, clock)
        self._is_asked = False
        self._fates: Fates | None = None

    def begin_pass(self, *, is_on_demand: bool) -> None:
        """Begin with the first topic again; `is_on_demand`: somebody waits for it."""
        self._is_asked = is_on_demand
        self._fates = None
        self._compact.begin_pass()
        self._kept.begin_pass()

    def steps(self, topic: TopicMetadata) -> Generator[Step, None, None]:
        """Do the work that is due for one existing topic, yielding each step.

        Raises the `Unavailable` errors, `StoreCorrupt`.
        """
        if topic.is_compact:
            is_less = yield from self._compact.steps(
                topic, self._fates_now, is_on_demand=self._is_asked
            )
            if is_less:
                self._kept.forget(topic.id)
        yield from self._kept.steps(topic, self._fates_now)

    def held_ms(self) -> int | None:
        """Return the time of the oldest message at which a bound waits, None if none does.

        In ms since 1970. Any thread may call this.
        """
        return self._kept.held_ms()

    def _fates_now(self) -> Fates:
        """Return the fates as first read in this pass.

        A transaction decided for all readers then is still decided.
        """
        if self._fates is None:
            listed = self._calls.invalid_list()
            self._fates = Fates(listed, self._limits, self._clock.deletion_ms())
        return self._fates
