"""Transactions: started, checked, committed and aborted by the programs that use them.

Bodies are JSON. A request without one needs no Content-Type.
"""

from collections.abc import Mapping
from functools import partial

from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import BODY_ERRORS, JSON_ERRORS, Operation
from api.http.query_parameters import values_of, with_codec
from api.http.request_body import SMALL_BODY_BYTES_MAX, read_body
from api.openapi.transaction_schemas import (
    CHANGES_CONTENT,
    CODEC_PARAMETER,
    COMMIT_CONTENT,
    HOME_NAMESPACE,
    HOME_TOPIC,
    START_CONTENT,
    STARTED_CONTENT,
    STATUS_CONTENT,
)
from api.resources.carried import touch_carried
from api.resources.messages import MESSAGE_ERRORS, SCHEDULE_ERRORS
from api.resources.paths import TRANSACTION, TRANSACTIONS
from tms.core.services.transactions import StartRequest
from tms.core.values.topic import TopicId, check_namespace
from tms.security.resources import Action
from tms.wire import json_transactions as bodies


def _at_home(request: StartRequest, values: Mapping[str, str]) -> StartRequest:
    """Return a request with the home that the query names. Raises `InvalidRequest`."""
    if "namespace" not in values and "topic" not in values:
        return request
    namespace, topic = values.get("namespace", request.namespace), values.get("topic")
    if topic is not None:
        TopicId(namespace, topic)
    return request._replace(namespace=check_namespace(namespace), topic=topic)


async def start(exchange: Exchange) -> None:
    """Start a transaction."""
    body = await read_body(exchange, SMALL_BODY_BYTES_MAX)
    exchange.check_only_json(body)
    request = _at_home(bodies.decode_start(body), values_of(exchange.query))
    codec = with_codec(exchange.query)
    transaction = await exchange.context.services.transactions.start(
        request, caller=exchange.caller
    )
    await exchange.answer(OK, bodies.encode_started(transaction, with_codec=codec), JSON_TYPE)


async def checkpoint(exchange: Exchange) -> None:
    """Give a transaction a new write pointer."""
    body = await read_body(exchange, SMALL_BODY_BYTES_MAX)
    exchange.check_only_json(body)
    codec = with_codec(exchange.query)
    transaction = await exchange.context.services.transactions.checkpoint(
        exchange.transaction_id, caller=exchange.caller
    )
    await exchange.answer(OK, bodies.encode_started(transaction, with_codec=codec), JSON_TYPE)


async def can_commit(exchange: Exchange) -> None:
    """Accept a transaction's changes, or refuse them."""
    context = exchange.context
    body = await read_body(exchange)
    exchange.check_only_json()
    changes = bodies.decode_changes(body, context.limits.transaction_changes_max)
    await context.services.transactions.can_commit(
        exchange.transaction_id, changes, caller=exchange.caller
    )
    await exchange.answer(OK)


async def commit(exchange: Exchange) -> None:
    """Commit a transaction, and with it all else that the body says."""
    body = await read_body(exchange)
    exchange.check_only_json(body)
    request = bodies.decode_commit(body)
    await touch_carried(exchange, request)
    await exchange.context.services.transactions.commit(
        exchange.transaction_id, request, caller=exchange.caller
    )
    await exchange.answer(OK)


async def abort(exchange: Exchange) -> None:
    """Abort a transaction; answer with its status."""
    body = await read_body(exchange, SMALL_BODY_BYTES_MAX)
    exchange.check_only_json(body)
    status = await exchange.context.services.transactions.abort(
        exchange.transaction_id, caller=exchange.caller
    )
    await exchange.answer(OK, bodies.encode_ended(status), JSON_TYPE)


async def invalidate(exchange: Exchange) -> None:
    """Invalidate a transaction."""
    await read_body(exchange, SMALL_BODY_BYTES_MAX)
    await exchange.context.services.transactions.invalidate(
        exchange.transaction_id, caller=exchange.caller
    )
    await exchange.answer(OK)


MANAGER_ERRORS = ("transactions_elsewhere", "not_found")
"""The errors of every operation on transactions."""
ID_ERRORS = (
    "transaction_unknown",
    "transaction_not_in_progress",
    "transaction_of_another",
    *MANAGER_ERRORS,
)
"""The errors of every operation on a transaction in progress."""
_OWNER_ERRORS = (
    "invalid_owner",
    "owner_busy",
    "owner_elsewhere",
    "transaction_duplicate",
    "transaction_of_another",
)

_row = partial(Operation, action=Action.TRANSACT, method="POST", tag="Transactions")
OPERATIONS = (
    _row(
        name="startTransaction",
        path=TRANSACTIONS,
        handler=start,
        summary="Start a transaction",
        description=(
            "The answer has the write pointer for publishing, and the snapshot for polling. With "
            "an `owner` and a `sequence` the work is committed once, even if it is started several "
            "times: `transaction_duplicate` means that it is done. With an `origin` this applies "
            "only to the same origin: another one gets `owner_elsewhere`. The transaction and "
            "its "
            "owner belong to the caller. The body may be empty."
        ),
        query=(CODEC_PARAMETER, HOME_NAMESPACE, HOME_TOPIC),
        request=START_CONTENT,
        is_body_required=False,
        success="The transaction is in progress.",
        answer=STARTED_CONTENT,
        errors=(
            "invalid_body",
            "invalid_query",
            "invalid_namespace_name",
            "invalid_topic_name",
            "invalid_timeout",
            "too_many_transactions",
            "too_many_owners",
            *_OWNER_ERRORS,
            *MANAGER_ERRORS,
            *JSON_ERRORS,
        ),
        is_taskless=True,
    ),
    _row(
        name="canCommitTransaction",
        path=f"{TRANSACTION}/can-commit",
        handler=can_commit,
        summary="Check whether a transaction can commit, by the keys of its changes",
        description=(
            "It is refused if another transaction, which committed since this one started, changed "
            "one of the same keys. Call it before changes are made persistent; a transaction that "
            "only publishes messages does not need it."
        ),
        request=CHANGES_CONTENT,
        success="It can commit, unless another transaction that changed the same keys commits "
        "first.",
        errors=(
            "invalid_body",
            "transaction_conflict",
            "too_many_changes",
            "too_many_changes_kept",
            *ID_ERRORS,
            *JSON_ERRORS,
        ),
        is_taskless=True,
    ),
    _row(
        name="commitTransaction",
        path=f"{TRANSACTION}/commit",
        handler=commit,
        summary="Commit a transaction",
        description=(
            "The commit makes all its messages visible at once, and moves the positions of "
            "subscriptions in the same step. It also publishes the messages that were stored "
            "under "
            "the write pointers of `publish`, in that order; those stored under other pointers "
            "cannot be read. Messages to `schedule` are published later; without the commit, they "
            "never are. If the commit is refused, the transaction remains in progress and "
            "should be aborted. "
            "The body may be empty."
        ),
        request=COMMIT_CONTENT,
        is_body_required=False,
        success="The transaction is committed.",
        errors=(
            "invalid_body",
            "id_as_number",
            "invalid_write_pointer",
            "invalid_message_id",
            "invalid_namespace_name",
            "invalid_topic_name",
            "invalid_subscription_name",
            "topic_not_found",
            "too_many_topics_at_once",
            "subscription_not_found",
            "subscription_moved",
            "ack_refused",
            "invalid_member",
            "publication_refused",
            "owner_elsewhere",
            "other_shard",
            "transaction_conflict",
            "transaction_duplicate",
            "payload_without_schema",
            "payload_unfit",
            "schema_unusable",
            "schemas_unavailable",
            *SCHEDULE_ERRORS,
            *MESSAGE_ERRORS,
            *ID_ERRORS,
            *JSON_ERRORS,
        ),
        is_taskless=True,
    ),
    _row(
        name="abortTransaction",
        path=f"{TRANSACTION}/abort",
        handler=abort,
        summary="Abort a transaction",
        description=(
            "Publishes that were not rolled back are rolled back now. If that is not possible, "
            "or if the transaction is long, it becomes invalid, and readers skip its messages."
        ),
        success="The transaction has ended.",
        answer=STATUS_CONTENT,
        errors=(*ID_ERRORS, *JSON_ERRORS, *BODY_ERRORS),
        is_taskless=True,
    ),
    _row(
        name="invalidateTransaction",
        path=f"{TRANSACTION}/invalidate",
        handler=invalidate,
        summary="End a transaction whose writes cannot be rolled back",
        description="From now on, readers with a transaction skip its messages.",
        success="The transaction is invalid.",
        errors=(*ID_ERRORS, *BODY_ERRORS),
    ),
    _row(
        name="checkpointTransaction",
        path=f"{TRANSACTION}/checkpoint",
        handler=checkpoint,
        summary="Give a transaction a new write pointer",
        description=(
            "Later writes have a different pointer, and can be rolled back separately. All of "
            "them commit together."
        ),
        query=(CODEC_PARAMETER,),
        success="The transaction with its new write pointer.",
        answer=STARTED_CONTENT,
        errors=("invalid_query", "too_many_checkpoints", *ID_ERRORS, *JSON_ERRORS, *BODY_ERRORS),
    ),
)
