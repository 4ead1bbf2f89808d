"""Transactions for tests, built from drawn parts."""

from typing import Any

from tms.core.values.transaction import Transaction, TransactionType, VisibilityLevel


def transaction_of(golden: dict[str, Any]) -> Transaction:
    def numbers(name: str) -> tuple[int, ...]:
        return tuple(int(number) for number in golden[name])

    return Transaction(
        read_pointer=int(golden["readPointer"]),
        transaction_id=int(golden["transactionId"]),
        write_pointer=int(golden["writePointer"]),
        invalids=numbers("invalids"),
        in_progress=numbers("inProgress"),
        first_short_in_progress=int(golden["firstShortInProgress"]),
        type=TransactionType[golden["type"]],
        checkpoint_write_pointers=numbers("checkpointWritePointers"),
        visibility_level=VisibilityLevel[golden["visibilityLevel"]],
    )
