"""Recovering until nothing is in progress any more."""

import time
from typing import Protocol

import tms
from tms.client.database_recovery import KnownOutcomes, Recovered

RECOVER_S_MAX = 20.0


class Recovering(Protocol):
    def recover(self, outcomes: KnownOutcomes) -> Recovered: ...


def recovered(part: Recovering, client: tms.Client) -> Recovered:
    """Return what a recovery does once the transaction of the program that died has timed out."""
    deadline = time.monotonic() + RECOVER_S_MAX
    while True:
        found = part.recover(client.transactions)
        if not found.in_progress:
            return found
        assert time.monotonic() < deadline
        time.sleep(0.1)
