"""Ends of ranges, by the model of `ends_machine`."""

from hypothesis import HealthCheck, settings

from tests.messaging.ranges.ends_machine import Ends

TestEnds = Ends.TestCase
TestEnds.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
