"""Owners of transactions, as those see them who look after the server."""

from typing import NamedTuple

OWNERS_LISTED, OWNERS_LISTED_MAX = 1_000, 10_000
"""How many owners are told if nobody asks for more, and at most: there may be a million."""


class OwnerInfo(NamedTuple):
    """An owner that is remembered, and what it did last."""

    owner: str
    sequence: int
    """The last that it committed."""
    transaction_id: int
    """Which did."""
    committed_ms: int
    """When, in ms since 1970."""
    age_ms: int = 0
    """How long ago that was, by the clock of the server that has it."""
    origin: str | None = None
    principal: str | None = None
    """The principal of the owner; None: it is free."""
