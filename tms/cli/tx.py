"""`tms tx`: manages transactions, and uses one from a script."""

from typing import Annotated

import typer

from tms.cli import tx_owners
from tms.cli.columns import named
from tms.cli.durations import duration
from tms.cli.poll import parse_time_ms
from tms.cli.target import Target, with_target
from tms.core.services.transactions import StartRequest, TransactionInfo
from tms.core.text.durations import span
from tms.core.values.store_access import StoreAccess
from tms.core.values.transaction import TransactionType
from tms.wire.json_reports import info_record

app = typer.Typer(
    help="List and repair transactions, and use one from a script.", no_args_is_help=True
)
app.add_typer(tx_owners.app, name="owners")

EXAMPLES = """\b
Example:
  id=$(tms tx start)
  tms publish orders "one" --tx $id
  tms publish audit "two" --tx $id
  tms tx commit $id"""

_HEADS = ("ID", "AGE", "TYPE", "OWNER", "CLIENT", "PRINCIPAL", "TOPICS")

TransactionArgument = Annotated[int, typer.Argument(metavar="ID", help="The transaction's id.")]
Ids = Annotated[
    list[int] | None,
    typer.Argument(metavar="ID", help="The transactions' write pointers.", show_default=False),
]
Invalid = Annotated[bool, typer.Option("--invalid", help="List the invalid transactions instead.")]
Limit = Annotated[int, typer.Option(min=1, metavar="COUNT", help="The most invalid transactions.")]
Timeout = Annotated[
    int | None,
    duration(
        "--timeout",
        help_text="The time after which it becomes invalid; by default the server's setting, 30.",
        whole=True,
        least_s=1,
    ),
]
Long = Annotated[
    bool, typer.Option("--long", help="Start a long transaction, which may take a day.")
]
Home = Annotated[
    str | None,
    typer.Option(
        metavar="TOPIC",
        help="A topic that the transaction will use; for a store with shards by topic.",
    ),
]
Before = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="All transactions that started before this time: ISO 8601, UTC unless it says "
        "otherwise, or milliseconds "
        "since 1970.",
    ),
]


def _owner(info: TransactionInfo) -> str:
    if info.owner is None:
        return "-"
    return info.owner if info.sequence is None else f"{info.owner} #{info.sequence}"


def _row(info: TransactionInfo) -> tuple[str, ...]:
    return (
        str(info.transaction_id),
        span(info.age_ms),
        info.type.name.lower(),
        _owner(info),
        info.client or "-",
        info.principal or "-",
        " ".join(info.topics) or "-",
    )


@app.command("list")
@with_target
def list_transactions(target: Target, *, invalid: Invalid = False, limit: Limit = 1000) -> None:
    """List the transactions in progress, oldest first."""
    with target.connect(StoreAccess.READ) as client:
        transactions = (
            client.transactions.invalid(limit) if invalid else client.transactions.in_progress()
        )
    target.answer_list(_HEADS, map(_row, transactions), [*map(info_record, transactions)])


@app.command()
@with_target
def show(target: Target, transaction_id: TransactionArgument) -> None:
    """Show the state of a transaction, even if it ended recently."""
    with target.connect(StoreAccess.READ) as client:
        facts = info_record(client.transactions.info(transaction_id))
    shown_facts = {key: value for key, value in facts.items() if value not in (None, "", [])}
    target.answer(named(shown_facts), facts)


@app.command(epilog=EXAMPLES)
@with_target
def start(
    target: Target, *, timeout_s: Timeout = None, long: Long = False, home: Home = None
) -> None:
    """Start a transaction, and print its id."""
    kind = TransactionType.LONG if long else TransactionType.SHORT
    with target.connect() as client:
        request = StartRequest(
            type=kind,
            timeout_s=timeout_s,
            client="tms tx start",
            namespace=target.namespace,
            topic=home,
        )
        transaction_id = client.transactions.start(request).transaction_id
    target.answer(str(transaction_id), {"transaction_id": str(transaction_id)})


@app.command()
@with_target
def commit(target: Target, transaction_id: TransactionArgument) -> None:
    """Commit a transaction: readers see all its messages at once."""
    with target.connect() as client:
        client.transactions.commit(transaction_id)
    target.answer(f"Committed {transaction_id}.", {"committed": str(transaction_id)})


@app.command()
@with_target
def abort(target: Target, transaction_id: TransactionArgument) -> None:
    """End a transaction, and roll back the publishes that were not yet rolled back.

    If the server cannot do that, the transaction becomes invalid, and readers skip its messages.
    """
    with target.connect() as client:
        status = client.transactions.abort(transaction_id)
    target.answer(
        f"{transaction_id} is {status.value} now.",
        {"transaction_id": str(transaction_id), "status": status},
    )


@app.command()
@with_target
def invalidate(target: Target, transaction_id: TransactionArgument) -> None:
    """End a transaction that no program will end: readers skip its messages."""
    with target.connect() as client:
        client.transactions.invalidate(transaction_id)
    target.answer(f"{transaction_id} is invalid now.", {"invalidated": str(transaction_id)})


@app.command()
@with_target
def truncate(target: Target, ids: Ids = None, before: Before = None) -> None:
    """Remove transactions from the invalid list.

    Do this only if none of their messages are left, because they would become visible.
    """
    if bool(ids) == (before is not None):
        raise typer.BadParameter("give either ids or --before")
    with target.connect() as client:
        if before is None:
            count = client.transactions.truncate_invalid_ids(ids or ())
        else:
            count = client.transactions.truncate_invalid_before(parse_time_ms(before, "--before"))
    target.answer(f"Removed {count} from the invalid list.", {"truncated": count})
