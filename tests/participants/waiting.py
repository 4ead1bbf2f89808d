"""Recovering until nothing is in progress any more."""

from typing import Protocol

import tms
from tests.waiting import wait_until
from tms.client.database_recovery import KnownOutcomes, Recovered


class Recovering(Protocol):
    def recover(self, outcomes: KnownOutcomes) -> Recovered: ...


def recovered(part: Recovering, client: tms.Client) -> Recovered:
    """Return what a recovery does once the transaction of the program that died has timed out."""

    def found() -> Recovered | None:
        recovered = part.recover(client.transactions)
        return None if recovered.in_progress else recovered

    done = wait_until(found)
    assert done is not None
    return done
