"""The counts of the transaction manager, for Prometheus; plain numbers until it reads them."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from tms.core.errors import StoreUnavailable
from tms.core.limits import MS_PER_S
from tms.transactions.edits import EditKind
from tms.transactions.journal import TransactionJournal

_TRANSITIONS = {
    EditKind.STARTED: "started",
    EditKind.COMMITTED: "committed",
    EditKind.ABORTED: "aborted",
    EditKind.INVALID: "invalidated",
}

KEPT: Mapping[str, Callable[[TransactionJournal], int]] = {
    "transactions": lambda journal: journal.state.in_progress_count,
    "invalid_pointers": lambda journal: journal.state.invalid_count,
    "outcomes": lambda journal: len(journal.state.outcomes.codes),
    "owners": lambda journal: len(journal.state.owners.last_commits),
}
"""The number of each kind in memory. Raises `StoreUnavailable` while the state is recovered."""


class TransactionMetrics:
    """The numbers of one journal."""

    def __init__(self, registry: CollectorRegistry, journal: TransactionJournal) -> None:
        """Register the metrics in `registry`."""
        self._journal = journal
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        journal = self._journal
        transitions = CounterMetricFamily(
            "tms_transactions",
            "Transactions by outcome; each one is also counted as started.",
            labels=("became",),
        )
        for kind, name in _TRANSITIONS.items():
            transitions.add_metric((name,), journal.counts[kind])
        yield transitions
        yield CounterMetricFamily(
            "tms_transaction_log_rows", "Writes to the log of transactions.", journal.rows_written
        )
        try:
            state = journal.state
        except StoreUnavailable:
            return  # the state is being recovered
        yield GaugeMetricFamily(
            "tms_transactions_in_progress",
            "Transactions that are in progress.",
            state.in_progress_count,
        )
        yield GaugeMetricFamily(
            "tms_transactions_invalid",
            "Write pointers on the list of invalid transactions.",
            state.invalid_count,
        )
        yield GaugeMetricFamily(
            "tms_transaction_owners",
            "Owners of transactions that are remembered, or have a reserved place.",
            state.owners.shares.used,
        )
        yield GaugeMetricFamily(
            "tms_transaction_owners_max",
            "The most owners of transactions that are remembered.",
            state.owners.shares.bound,
        )
        oldest = next(iter(state.opened), None)
        age_ms = 0 if oldest is None else oldest.age_ms(journal.time.now_ms())
        yield GaugeMetricFamily(
            "tms_transaction_oldest_seconds",
            "Age of the oldest transaction in progress.",
            age_ms / MS_PER_S,
        )
