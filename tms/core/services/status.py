"""The status of a server, for operators: figures and findings."""

from collections.abc import Sequence
from dataclasses import dataclass

from tms.core.services.findings import Finding
from tms.core.values.lags import ReaderLag


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The server's traffic per second, about the mean of the last minute.

    None until the server has served for some seconds.
    """

    messages_in: float | None
    bytes_in: float | None
    messages_out: float | None
    bytes_out: float | None
    requests: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The disk of the store."""

    store_bytes: int
    free_bytes: int
    disk_bytes: int
    full_in_s: float | None
    """After how many seconds it is full if the store keeps growing so; None if not within a year.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """The status of a server."""

    time_ms: int
    """The server's time, ms since 1970."""
    findings: Sequence[Finding]
    """The urgent findings first."""
    messages_in_s: float | None
    """Per second, as in `Rates`, like the fields after it."""
    bytes_in_s: float | None
    messages_out_s: float | None
    bytes_out_s: float | None
    requests_s: float | None
    in_progress: int
    """How many transactions are in progress."""
    oldest_transaction: int | None
    """The id of the oldest transaction in progress."""
    oldest_age_ms: int | None
    oldest_client: str | None
    store_bytes: int | None
    """As in `Disk`, like the fields after it; None for a store that is not in a folder."""
    free_bytes: int | None
    disk_bytes: int | None
    full_in_s: float | None
    readers: Sequence[ReaderLag]
    """A page of the subscriptions and groups, in the order of their topics and names."""
    next_reader: int | None
    """The number of readers to skip for the next page; None if there is none."""
    missing_shards: Sequence[int] = ()
    """The shards whose transactions are omitted, because no server leads them now."""
