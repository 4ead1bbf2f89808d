"""Recovering after a program has died."""

from typing import Protocol

import tms
from tms.client.groups.database_recovery import KnownOutcomes, Recovered


class Recovering(Protocol):
    def recover(self, outcomes: KnownOutcomes) -> Recovered: ...


def recovered(part: Recovering, client: tms.Client) -> Recovered:
    """Return the result of a recovery once the transaction of the dead program has ended.

    The transaction is invalidated, as by its timeout, which is long so that the program reaches its
    point.
    """
    first = part.recover(client.transactions)
    if not first.in_progress:
        return first
    for transaction_id in first.in_progress:
        client.transactions.invalidate(transaction_id)
    return part.recover(client.transactions)
