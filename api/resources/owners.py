"""Owners of transactions: listed and forgotten."""

from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import Operation
from api.http.query_parameters import limit_of, values_of
from api.openapi.transaction_schemas import (
    OWNER_PARAMETER,
    OWNERS_CONTENT,
    OWNERS_LIMIT_PARAMETER,
    OWNERS_PRINCIPAL_PARAMETER,
)
from api.resources.of_shard import MISSING_HEADER, SHARD_PARAMETER, present_of, services_of
from api.resources.paths import TRANSACTIONS
from api.resources.transactions import MANAGER_ERRORS
from tms.core.errors import InvalidRequest
from tms.core.services.transactions import check_owner
from tms.core.values.owners import OWNERS_LISTED
from tms.security.resources import Action
from tms.wire.json_reports import encode_owners

_PATH = f"{TRANSACTIONS}/owners"


async def list_owners(exchange: Exchange) -> None:
    """Answer with the owners that are remembered."""
    values = values_of(exchange.query)
    services, headers = present_of(exchange)
    owners = await services.transactions.owners(
        limit_of(values) or OWNERS_LISTED, principal=values.get("principal")
    )
    await exchange.answer(OK, encode_owners(owners), JSON_TYPE, headers)


async def forget_owner(exchange: Exchange) -> None:
    """Forget one owner."""
    owner = values_of(exchange.query).get("owner")
    if owner is None:
        raise InvalidRequest("invalid_query", name="owner", given=None, expected="an owner")
    check_owner(owner, None)
    await services_of(exchange).transactions.forget_owner(owner, caller=exchange.caller)
    await exchange.answer(OK)


# Before the path of one transaction, whose id would match them.
OPERATIONS = (
    Operation(
        name="listOwners",
        action=Action.OPERATE,
        method="GET",
        path=_PATH,
        handler=list_owners,
        tag="Transactions",
        summary="List the owners of transactions that are remembered",
        description="The owner with the oldest commit comes first.",
        query=(OWNERS_LIMIT_PARAMETER, OWNERS_PRINCIPAL_PARAMETER, SHARD_PARAMETER),
        success="The owners.",
        answer=OWNERS_CONTENT,
        answer_headers=MISSING_HEADER,
        errors=("invalid_query", "invalid_limit", *MANAGER_ERRORS),
        is_compressed=True,
    ),
    Operation(
        name="forgetOwner",
        action=Action.TRANSACT,
        method="DELETE",
        path=_PATH,
        handler=forget_owner,
        tag="Transactions",
        summary="Forget an owner",
        description=(
            "After that, its sequences may be committed again, and anybody may use the owner. "
            "The server itself forgets an owner that has committed nothing for "
            "`transaction_owner_retention_s`."
        ),
        query=(OWNER_PARAMETER, SHARD_PARAMETER),
        success="The owner was forgotten.",
        errors=(
            "invalid_query",
            "invalid_owner",
            "owner_not_found",
            "owner_busy",
            "transaction_of_another",
            "queue_full",
            *MANAGER_ERRORS,
        ),
    ),
)
