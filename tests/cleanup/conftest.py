"""Fixtures of the models of cleanup."""

from collections.abc import Iterator

import pytest

from tms.transactions import service


@pytest.fixture(scope="module")
def timeouts_by_hand() -> Iterator[None]:
    """Keep transactions from timing out by themselves."""
    tick_s = service._TICK_S
    service._TICK_S = 1_000_000.0
    yield
    service._TICK_S = tick_s
