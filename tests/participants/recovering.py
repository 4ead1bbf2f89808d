"""Recovering after a program has died."""

from typing import Protocol

import tms
from tms.client.groups.database_recovery import KnownOutcomes, Recovered


class Recovering(Protocol):
    def recover(self, outcomes: KnownOutcomes) -> Recovered: ...


def recovered(part: Recovering, client: tms.Client) -> Recovered:
    """Return what a recovery does once the transaction of the program that died has ended.

    It ends as it would at its timeout, whose time the program needs to come to its point.
    """
    first = part.recover(client.transactions)
    if not first.in_progress:
        return first
    for transaction_id in first.in_progress:
        client.transactions.invalidate(transaction_id)
    return part.recover(client.transactions)
