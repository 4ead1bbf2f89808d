"""Transactions: those in progress by age, the readers that wait for them, the invalid list."""

from collections.abc import Iterable, Sequence

from api.console.row import Row
from api.console.typed import check_confirmed
from api.console.visit import Answer, Done, ShownPage, Visit
from api.http.protocol.numbers import whole_number
from tms.core.errors import TmsError
from tms.core.services.transactions import TransactionInfo, TransactionStatus
from tms.core.values.cleanup import InvalidState
from tms.core.values.groups import LimitedBy
from tms.core.values.lags import ReaderLag
from tms.core.values.topic import TopicId
from tms.security.resources import Action, topic_resource

_PAGE = 100
_PASSED_MAX = 100_000
_WAITING_SHOWN = 20
_GROUPS_ASKED = 20
_OPEN = (TransactionStatus.IN_PROGRESS, TransactionStatus.COMMITTING)


async def transactions(visit: Visit) -> Answer:
    """Show a page of transactions in progress, and one of invalid transactions."""
    query = visit.query
    from_open, from_invalid = (_number(query.get(name, "")) for name in ("open", "invalid"))
    services, missing = visit.services.present()
    service, watch = services.transactions, visit.exchange.context.watch
    in_progress = await service.in_progress()
    invalid = await service.invalid(from_invalid + _PAGE + 1)
    cleanup = await watch.cleanup()
    values = {
        "missing": missing,
        "in_progress": in_progress[from_open : from_open + _PAGE],
        "count": len(in_progress),
        "from_open": from_open,
        "next_open": _next(from_open, in_progress),
        "waiting": _waiting(visit, in_progress[from_open : from_open + _PAGE], await watch.lags()),
        "invalid": invalid[from_invalid : from_invalid + _PAGE],
        "invalid_count": await service.invalid_count(),
        "from_invalid": from_invalid,
        "next_invalid": _next(from_invalid, invalid),
        "held": None if cleanup is None else cleanup.invalid,
        "holder": _holder(None if cleanup is None else cleanup.invalid, in_progress),
    }
    return ShownPage("transactions.html", values)


def _number(text: str) -> int:
    return min(whole_number(text) or 0, _PASSED_MAX)


def _next(passed: int, transactions: Sequence[object]) -> str:
    end = passed + _PAGE
    return str(end) if end < min(len(transactions), _PASSED_MAX) else ""


def _holder(
    held: InvalidState | None, transactions: Iterable[TransactionInfo]
) -> TransactionInfo | None:
    """Return the transaction in progress that keeps invalid transactions in the list."""
    if held is None or held.held_by is None:
        return None
    return next((each for each in transactions if held.held_by in each.write_pointers), None)


def _waiting(
    visit: Visit, transactions: Iterable[TransactionInfo], lags: Iterable[ReaderLag]
) -> dict[int, list[ReaderLag]]:
    """Return, for each transaction, readers of its topics with lags that the visitor may see."""
    topics = {topic for each in transactions for topic in each.topics}
    by_topic: dict[str, list[ReaderLag]] = {}
    for lag in lags:
        if lag.messages and lag.place in topics:
            resource = topic_resource(lag.namespace, lag.topic)
            if visit.may(Action.SUBSCRIBE, resource, lag.name):
                by_topic.setdefault(lag.place, []).append(lag)
    return {
        each.transaction_id: [lag for topic in each.topics for lag in by_topic.get(topic, ())][
            :_WAITING_SHOWN
        ]
        for each in transactions
    }


async def transaction(visit: Visit) -> Answer:
    """Show a transaction, even if it has ended recently."""
    exchange = visit.exchange
    info = await visit.services.transactions.info(exchange.transaction_id, caller=exchange.caller)
    is_open = info.status in _OPEN
    is_own = info.principal is not None and info.principal == exchange.caller.principal
    may_end = visit.may_change(Action.TRANSACT_ANY) or (
        visit.may_change(Action.TRANSACT) and is_own
    )
    lags = _waiting(visit, [info], await exchange.context.watch.lags())[info.transaction_id]
    values = {
        "info": info,
        "is_open": is_open,
        "waiting": lags if is_open else [],
        "stopped": await _stopped(visit, info, lags) if is_open else [],
        "may_end": is_open and may_end,
    }
    return ShownPage("transaction.html", values)


async def _stopped(
    visit: Visit, info: TransactionInfo, lags: Iterable[ReaderLag]
) -> list[ReaderLag]:
    """Return the groups that report a transaction as what stops them."""
    groups = []
    for lag in [lag for lag in lags if lag.kind == "shared"][:_GROUPS_ASKED]:
        try:
            topic_id = TopicId(lag.namespace, lag.topic)
            state = (await visit.services.groups.group(topic_id, lag.name)).state
        except TmsError:
            continue  # the group was deleted in the meantime
        is_here = state.stopped_at in info.write_pointers
        if is_here and state.limited_by is LimitedBy.TRANSACTION:
            groups.append(lag)
    return groups


async def invalidate(visit: Visit) -> Answer:
    """Abort a transaction: readers skip its messages from then on."""
    exchange = visit.exchange
    transaction_id = exchange.transaction_id
    check_confirmed(visit, str(transaction_id))
    await visit.services.transactions.invalidate(transaction_id, caller=exchange.caller)
    return Done("/transactions", f"Transaction {transaction_id} was invalidated.")


_ONE = "/transactions/{transaction_id}"
ROWS = (
    Row("Transactions", "/transactions", transactions, Action.OPERATE),
    Row("Transaction", _ONE, transaction, Action.TRANSACT),
    Row("Invalidate", f"{_ONE}/invalidate", invalidate, Action.TRANSACT, is_form=True),
)
