"""The fixture that all structure tests share: it pauses the collector."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _gc_paused() -> Iterator[None]:
    """Pause the collector, which would double the time to create millions of nodes of trees."""
    gc.disable()
    yield
    gc.enable()
