"""Servers that share shards, by the simulation of `shards_machine`."""

from hypothesis import settings

from tests.scale import scaled
from tests.simulation.shards_machine import ShardsMachine

TestShards = ShardsMachine.TestCase
TestShards.settings = settings(max_examples=scaled(30), stateful_step_count=40)
