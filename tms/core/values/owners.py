"""Owners of transactions, as operators see them."""

from typing import NamedTuple

OWNERS_LISTED, OWNERS_LISTED_MAX = 1_000, 10_000
"""How many owners are listed by default, and at most: there may be a million."""


class OwnerInfo(NamedTuple):
    """A remembered owner, and its last work."""

    owner: str
    sequence: int
    """The last sequence that it committed."""
    transaction_id: int
    """The origin that committed it."""
    committed_ms: int
    """When it was committed, in ms since 1970."""
    age_ms: int = 0
    """How long ago that was, by the clock of its server."""
    origin: str | None = None
    principal: str | None = None
    """The principal that owns it; None if anybody may use it."""
