"""Counting values by size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tms.core.values.histogram import Histogram

BOUNDS = (0.5, 1.0, 10.0)


@given(st.lists(st.floats(0, 100)))
def test_each_bucket_counts_what_is_at_most_its_bound(values: list[float]) -> None:
    histogram = Histogram(BOUNDS)
    for value in values:
        histogram.observe(value)

    below = [(str(bound), sum(value <= bound for value in values)) for bound in BOUNDS]
    assert histogram.buckets() == [*below, ("+Inf", len(values))]
    assert histogram.total == pytest.approx(sum(values))
