"""The interface for operators to look into tables.

The package `cleanup` implements it, for the tables of a running server and for others. Everything
is read in parts of bounded size, so tables can be inspected without holding them in memory: each
part says where the next one starts. Nothing is changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tms.core.values.cleanup import InvalidState, PruneBound
from tms.core.values.topic import TopicId

Facts = dict[str, Any]
"""Ready for JSON: times in milliseconds since 1970, keys in hexadecimal, payloads in base64, write
pointers as text.
"""

TABLES = ("message", "payload", "metadata", "subscription", "transaction", "bound", "group")
"""The tables, by their names for people."""
CHECKED = ("transaction", "message", "payload", "subscription", "group", "cache")
"""The checks: of tables, and of the cache against the Message table."""
ROWS_MAX = 10_000
"""The most rows in a part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A part of the rows of a table."""

    rows: Sequence[Facts]
    next: str | None = None
    """Where the next part begins, in hexadecimal digits; None at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of a part of a table."""

    rows: int
    bytes: int
    """The bytes of keys and values, as written."""
    disk_bytes: int
    """About how much disk the whole table takes."""
    next: str | None = None
    """As in `Rows`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problems:
    """The problems in a part, one line each; none are expected."""

    problems: Sequence[str]
    rows: int
    """How many rows were checked; for the cache, topics."""
    sealed: int = 0
    """How many of them are sealed: a server sent them while another led."""
    without_payloads: int = 0
    """How many of them are references without stored messages, so nothing was published."""
    next: str | None = None
    """As in `Rows`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How far invalid transactions are cleaned up."""

    bounds: Sequence[PruneBound]
    invalid: InvalidState | None
    """Why transactions stay listed; None if another system manages them."""


class PartwiseInspection(Protocol):
    """A look into the tables of one store. All raise `StoreUnavailable` and `StoreCorrupt`.

    `after` is the `next` of the previous part, None for the first; `limit` is at most `ROWS_MAX`.
    """

    async def rows(
        self,
        table: str,
        topic_id: TopicId | None,
        from_ms: int | None,
        after: str | None,
        limit: int,
    ) -> Rows:
        """Return rows decoded, of one topic or of all; messages of a topic from a time on."""
        ...

    async def size(self, table: str, after: str | None, limit: int) -> Size:
        """Return how large the next `limit` rows of a table are."""
        ...

    async def problems(
        self, checked: str, after: str | None, limit: int, *, is_cleaned: bool
    ) -> Problems:
        """Check the next rows of a table; with `is_cleaned`, dead generations are problems."""
        ...

    async def bounds(self) -> Bounds:
        """Return how far invalid transactions are cleaned up, and what holds their list."""
        ...

    async def explain(self, topic_id: TopicId, message_id: bytes) -> Facts:
        """Return what an id means, what is stored under it, and why readers see it or not.

        Raises `TopicNotFound`.
        """
        ...
