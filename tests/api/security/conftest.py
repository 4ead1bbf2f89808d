"""Servers that ask who calls."""

import gc
from collections.abc import Iterator

import pytest

from tests.api.console.conftest import guarded_site, open_site
from tests.api.security.secured import optional, pair

__all__ = ["guarded_site", "open_site", "optional", "pair"]


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Collect nothing while a test measures processor time.

    A collection takes time for every object of the process, whatever is measured.
    """
    gc.disable()
    yield
    gc.enable()
