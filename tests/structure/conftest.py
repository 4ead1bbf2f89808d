"""The fixture that the tests of the structure share: the collector pauses."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _gc_paused() -> Iterator[None]:
    """Pause the collector, which would double the time to create millions of nodes of trees."""
    gc.disable()
    yield
    gc.enable()
