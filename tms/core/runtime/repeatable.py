"""Writes that are harmless if made twice, and are repeated until they succeed."""

from collections.abc import Iterator
from contextlib import contextmanager

from tms.core.errors import OutcomeUnknown, StoreUnavailable


@contextmanager
def repeatable() -> Iterator[None]:
    """Raise `StoreUnavailable` for a write of unknown outcome, so that its maker repeats it.

    Not for requests of callers: their write may have been done.
    """
    try:
        yield
    except OutcomeUnknown as error:
        raise StoreUnavailable(**error.detail) from error
