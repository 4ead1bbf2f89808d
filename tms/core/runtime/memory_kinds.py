"""The kinds of entries that a server keeps in memory for long, and their counts.

Two tables, which docs/memory.md repeats: the entries of each store, which the gauge
`tms_memory_entries{kind}` reports, and those of the server, which `tms_server_memory_entries{kind}`
reports.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from tms.core.errors import StoreUnavailable


class MemoryKind(NamedTuple):
    """A kind of entries."""

    what: str
    most: str
    """The most entries, and the setting that says so."""
    bytes_each: str
    """Approximate bytes of an entry."""


STORE_KINDS: Mapping[str, MemoryKind] = {
    "topics": MemoryKind("topics in use", "`topics_in_memory_max`", "2,300, and its cache"),
    "groups": MemoryKind(
        "groups in use", "`topics_in_memory_max`", "7,000, and 650 for each open message"
    ),
    "schedules": MemoryKind("topics with scheduled messages", "`topics_max`", "900"),
    "publications": MemoryKind(
        "write pointers with published messages, until they end or cleanup inverts them",
        "`transactions_in_progress_max`, and those that time out while another is in progress",
        "700 for each topic",
    ),
    "stored_sizes": MemoryKind("write pointers with stored messages", "10,000", "450"),
    "transactions": MemoryKind(
        "transactions in progress", "`transactions_in_progress_max`", "1,000, and its changes"
    ),
    "invalid_pointers": MemoryKind(
        "write pointers on the invalid list",
        "those that time out within `transaction_lifetime_s_max`",
        "13",
    ),
    "outcomes": MemoryKind("ended transactions that are remembered", "200,000", "100"),
    "owners": MemoryKind("owners of transactions", "`transaction_owners_max`", "400"),
    "cleaned_topics": MemoryKind(
        "topics that cleanup tracks: existing ones, and those deleted within a day",
        "`topics_max`, and the deletions of a day",
        "700; 90 if deleted, except the 500 that a pass is deleting",
    ),
}


SERVER_KINDS: Mapping[str, MemoryKind] = {
    "paths": MemoryKind("paths of requests, with their routes", "16,384", "900"),
    "topic_names": MemoryKind("names of topics, decoded", "16,384", "260"),
    "decisions": MemoryKind("decisions of access control", "32,768", "a few hundred"),
    "sessions": MemoryKind(
        "sessions of principals", "16,384, and of certificates", "a few hundred"
    ),
    "console_sessions": MemoryKind("sessions of the console", "1,024", "a few hundred"),
}


class MemoryEntries:
    """The counts of a store, or of the server."""

    def __init__(self, kinds: Mapping[str, MemoryKind] = STORE_KINDS) -> None:
        """Count entries of `kinds`."""
        self._kinds = kinds
        self._counts: dict[str, Callable[[], int]] = {}

    def show(self, kind: str, count: Callable[[], int]) -> None:
        """Register `count`, which returns the entries of a kind, from any thread."""
        if kind not in self._kinds:
            raise KeyError(kind)
        self._counts[kind] = count

    def counts(self) -> Iterator[tuple[str, int]]:
        """Return the kinds with their present counts."""
        for kind, count in self._counts.items():
            with suppress(StoreUnavailable):  # the state of transactions is being recovered
                yield kind, count()
