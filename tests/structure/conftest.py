"""Files are parsed once for all tests of this folder, and forgotten behind them."""

from collections.abc import Iterator

import pytest

from tests.structure.sources import read


@pytest.fixture(scope="package", autouse=True)
def _forgotten() -> Iterator[None]:
    """Spare the collector half a million objects at the end of each later file."""
    yield
    read.cache_clear()
