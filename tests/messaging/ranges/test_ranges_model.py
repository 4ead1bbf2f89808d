"""Ends of ranges, by the model of `ends_machine`."""

from hypothesis import settings

from tests.messaging.ranges.ends_machine import Ends
from tests.scale import scaled

TestEnds = Ends.TestCase
TestEnds.settings = settings(
    max_examples=scaled(60),
    stateful_step_count=30,
)
