"""Transactions for operators: lists, one transaction, and the truncation of the invalid list.

Bodies are JSON, except that of the whole state.
"""

from functools import partial

from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import JSON_ERRORS, Operation
from api.http.query_parameters import choice_of, limit_of, values_of, with_codec
from api.http.request_body import SMALL_BODY_BYTES_MAX, read_body
from api.openapi.transaction_schemas import (
    CODEC_PARAMETER,
    INFO_CONTENT,
    INFOS_CONTENT,
    LIMIT_PARAMETER,
    SIZE_CONTENT,
    STATE_CONTENT,
    STATUS_PARAMETER,
    TRUNCATE_CONTENT,
    TRUNCATED_CONTENT,
)
from api.resources.of_shard import MISSING_HEADER, SHARD_PARAMETER, present_of, services_of
from api.resources.paths import TRANSACTION, TRANSACTIONS
from api.resources.transactions import MANAGER_ERRORS
from tms.core.errors import TransactionNotInProgress, TransactionUnknown
from tms.core.services.transactions import TransactionStatus
from tms.security.resources import Action
from tms.wire.json_reports import encode_info, encode_infos, encode_size
from tms.wire.json_transactions import decode_truncation, encode_truncated
from tms.wire.transaction_codec import encode_transaction

_BYTES_TYPE = b"application/octet-stream"
_OPEN = (TransactionStatus.IN_PROGRESS, TransactionStatus.COMMITTING)
_LISTED = (TransactionStatus.IN_PROGRESS, TransactionStatus.INVALID)


async def show(exchange: Exchange) -> None:
    """Answer with the state of a transaction, and its encoded form while it is in progress."""
    transactions = exchange.context.services.transactions
    transaction_id = exchange.transaction_id
    has_codec, caller = with_codec(exchange.query), exchange.caller
    info = await transactions.info(transaction_id, caller=caller)
    codec = None
    if has_codec and info.status in _OPEN:
        try:
            snapshot = await transactions.transaction(transaction_id, caller=caller)
            codec = encode_transaction(snapshot)
        except (TransactionNotInProgress, TransactionUnknown):
            info = await transactions.info(transaction_id, caller=caller)
    await exchange.answer(OK, encode_info(info, codec), JSON_TYPE)


async def list_transactions(exchange: Exchange) -> None:
    """Answer with the transactions in progress, or the invalid ones, oldest first."""
    services, headers = present_of(exchange)
    transactions = services.transactions
    values = values_of(exchange.query)
    status = choice_of(values, "status", _LISTED, TransactionStatus.IN_PROGRESS)
    limit = limit_of(values)
    if status == TransactionStatus.INVALID:
        infos = await transactions.invalid(limit)
    else:
        infos = (await transactions.in_progress())[:limit]
    await exchange.answer(OK, encode_infos(infos), JSON_TYPE, headers)


async def invalid_size(exchange: Exchange) -> None:
    """Answer with the number of invalid write pointers."""
    count = await services_of(exchange).transactions.invalid_count()
    await exchange.answer(OK, encode_size(count), JSON_TYPE)


async def truncate_invalid(exchange: Exchange) -> None:
    """Remove write pointers from the invalid list."""
    transactions = services_of(exchange).transactions
    body = await read_body(exchange, SMALL_BODY_BYTES_MAX)
    exchange.check_only_json()
    request = decode_truncation(body)
    if isinstance(request, int):
        count = await transactions.truncate_invalid_before(request)
    else:
        count = await transactions.truncate_invalid_ids(request)
    await exchange.answer(OK, encode_truncated(count), JSON_TYPE)


async def state(exchange: Exchange) -> None:
    """Answer with the whole state."""
    snapshot = await services_of(exchange).transactions.snapshot()
    await exchange.answer(OK, snapshot, _BYTES_TYPE)


_row = partial(Operation, action=Action.OPERATE, tag="Transactions")
_get = partial(_row, method="GET")
# Before the path of one transaction, whose id would match them.
OPERATIONS = (
    _get(
        name="listTransactions",
        path=TRANSACTIONS,
        handler=list_transactions,
        summary="List the transactions in progress, or the invalid ones",
        description="The oldest one comes first.",
        query=(STATUS_PARAMETER, LIMIT_PARAMETER, SHARD_PARAMETER),
        success="The transactions.",
        answer=INFOS_CONTENT,
        answer_headers=MISSING_HEADER,
        errors=("invalid_query", "invalid_limit", *MANAGER_ERRORS),
        is_compressed=True,
    ),
    _get(
        name="getTransactionState",
        path=f"{TRANSACTIONS}/state",
        handler=state,
        summary="Download the state of all transactions",
        description="The form is that of Tephra's snapshots, version 4, with more data at the end.",
        query=(SHARD_PARAMETER,),
        success="The snapshot.",
        answer=STATE_CONTENT,
        errors=("invalid_query", "shard_required", *MANAGER_ERRORS),
        is_compressed=True,
    ),
    _get(
        name="getInvalidSize",
        path=f"{TRANSACTIONS}/invalid/size",
        handler=invalid_size,
        summary="Count the write pointers of the invalid list",
        description="Each new transaction carries all of them.",
        query=(SHARD_PARAMETER,),
        success="The number of write pointers.",
        answer=SIZE_CONTENT,
        errors=("invalid_query", *MANAGER_ERRORS),
    ),
    _row(
        name="truncateInvalid",
        method="POST",
        path=f"{TRANSACTIONS}/invalid/truncate",
        handler=truncate_invalid,
        summary="Remove write pointers from the invalid list",
        description=(
            "The body has their ids, or a time before which all of them started. Do this only if "
            "none of their messages are left anywhere, because they would become visible."
        ),
        query=(SHARD_PARAMETER,),
        request=TRUNCATE_CONTENT,
        success="The number of removed write pointers.",
        answer=TRUNCATED_CONTENT,
        errors=(
            "invalid_query",
            "invalid_body",
            "id_as_number",
            "invalid_transaction_id",
            "invalid_time",
            "invalid_truncate_time",
            *MANAGER_ERRORS,
            *JSON_ERRORS,
        ),
    ),
    _get(
        name="getTransaction",
        action=Action.TRANSACT,
        path=TRANSACTION,
        handler=show,
        summary="Show the state of a transaction",
        description=(
            "It may have ended recently, so a client that lost the answer to a commit can find "
            "out here. `topics` are those that it published to, as far as the server remembers. "
            "A "
            "transaction that is in progress or invalid is shown only to the principal that began "
            "it."
        ),
        query=(CODEC_PARAMETER,),
        success="The transaction.",
        answer=INFO_CONTENT,
        errors=("invalid_query", "transaction_unknown", "transaction_of_another", *MANAGER_ERRORS),
    ),
)
