"""`tms tx owners`: the owners of transactions whose last sequences are remembered."""

from typing import Annotated

import typer

from tms.cli.target import Target, with_target
from tms.core.text.durations import span
from tms.core.values.owners import OWNERS_LISTED, OWNERS_LISTED_MAX, OwnerInfo
from tms.core.values.store_access import StoreAccess
from tms.wire.json_reports import owner_record

app = typer.Typer(help="List and forget the owners of transactions.", no_args_is_help=True)

_HEADS = ("OWNER", "SEQUENCE", "AGE", "PRINCIPAL", "ORIGIN", "TRANSACTION")

Limit = Annotated[
    int, typer.Option(min=1, max=OWNERS_LISTED_MAX, metavar="COUNT", help="The most owners.")
]
Principal = Annotated[
    str | None, typer.Option(metavar="NAME", help="Only the owners of this principal.")
]
Owner = Annotated[str, typer.Argument(metavar="OWNER", help="The owner's name.")]


def _row(info: OwnerInfo) -> tuple[str, ...]:
    return (
        info.owner,
        str(info.sequence),
        span(info.age_ms),
        info.principal or "-",
        info.origin or "-",
        str(info.transaction_id),
    )


@app.command("list")
@with_target
def list_owners(
    target: Target, *, limit: Limit = OWNERS_LISTED, principal: Principal = None
) -> None:
    """List the owners that are remembered, oldest commit first."""
    with target.connect(StoreAccess.READ) as client:
        owners = client.transactions.owners(limit, principal=principal)
    target.answer_list(_HEADS, map(_row, owners), [*map(owner_record, owners)])


@app.command()
@with_target
def forget(target: Target, owner: Owner) -> None:
    """Forget an owner, so that anybody may use its name and commit its sequences again."""
    with target.connect() as client:
        client.transactions.forget_owner(owner)
    target.answer(f"Forgot {owner}.", {"forgotten": owner})
