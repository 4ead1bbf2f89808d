"""Whose a transaction or an owner is, and who may act on it.

A caller that has said who it is acts on transactions of its own alone, unless it may end any. One
that nobody began under a name is not its own. An owner that nobody has yet used under a name is
free. A caller that has not said who it is (a store in the process, a server that does not ask) is
not checked.
"""

from collections.abc import Mapping

from tms.core.errors import NotPermitted
from tms.core.values.caller import Caller
from tms.transactions.in_progress import Open
from tms.transactions.invalids import Invalid
from tms.transactions.owners import LastCommit


def check_own(caller: Caller, transaction_id: int, known: Open | Invalid | None) -> None:
    """Raise `NotPermitted` (transaction_of_another) if a transaction is known, and not its own."""
    if known is None or caller.principal in (None, known.principal):
        return
    if not caller.may_end_any:
        raise NotPermitted("transaction_of_another", transaction_id=transaction_id)
    caller.acts_on(f"transaction {transaction_id} of {known.principal or 'nobody'}")


def check_owner_own(
    caller: Caller,
    owner: str | None,
    busy: Mapping[str, Open],
    last_commits: Mapping[str, LastCommit],
) -> None:
    """Raise `NotPermitted` (transaction_of_another) if an owner is another principal's.

    `busy` has the transactions in progress by their owners: no two principals share one.
    """
    if owner is None or caller.principal is None:
        return
    last, opened = last_commits.get(owner), busy.get(owner)
    is_taken = last is not None and last.principal not in (None, caller.principal)
    if not is_taken and (opened is None or opened.principal == caller.principal):
        return
    if not caller.may_end_any:
        raise NotPermitted("transaction_of_another", owner=owner)
    whose = opened.principal if opened is not None else last and last.principal
    caller.acts_on(f"owner {owner} of {whose or 'nobody'}")
