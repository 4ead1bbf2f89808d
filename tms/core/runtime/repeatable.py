"""Writes that do no harm when they are made twice, and are repeated until they succeed."""

from collections.abc import Iterator
from contextlib import contextmanager

from tms.core.errors import OutcomeUnknown, StoreUnavailable


@contextmanager
def repeatable() -> Iterator[None]:
    """Raise `StoreUnavailable` for a write of unknown outcome: its maker is to try again.

    Not for what a caller has asked for, who may not be told that it was not done.
    """
    try:
        yield
    except OutcomeUnknown as error:
        raise StoreUnavailable(**error.detail) from error
