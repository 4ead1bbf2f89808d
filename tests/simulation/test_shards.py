"""Servers that share shards, by the simulation of `shards_machine`."""

import os

from hypothesis import settings

from tests.simulation.shards_machine import ShardsMachine

TestShards = ShardsMachine.TestCase
TestShards.settings = settings(
    max_examples=int(os.environ.get("EX", "30")), stateful_step_count=40, deadline=None
)
