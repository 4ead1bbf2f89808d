"""The simulation of servers that share shards, for as long as you like.

    python -m tests.simulation.shards 300 [FIRST_SEED]

Each seed is one run; the steps of a run that fails are printed, and it can be repeated.
"""

import logging
import sys
import time
from itertools import count

from hypothesis import seed
from hypothesis.stateful import run_state_machine_as_test

from tests.scale import scaled
from tests.simulation.guards import SETTINGS
from tests.simulation.shards_machine import ShardsMachine


def run(seconds: float, first: int) -> int:
    """Run seeds from `first` on for this number of seconds; return how many were run."""
    until_s = time.monotonic() + seconds
    for number in count(first):
        if time.monotonic() >= until_s:
            return number - first
        seeded = type("ShardsMachine", (ShardsMachine,), {})
        try:
            run_state_machine_as_test(seed(number)(seeded), settings=SETTINGS_OF_ONE)
        except BaseException:
            sys.stdout.write(f"seed {number} failed\n")
            raise
    raise AssertionError("there is always one more seed")


SETTINGS_OF_ONE = type(SETTINGS)(SETTINGS, max_examples=scaled(20), print_blob=False)

if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    seeds = run(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    sys.stdout.write(f"{seeds * SETTINGS_OF_ONE.max_examples} runs, nothing found\n")
