"""Groups: subscriptions whose messages many members take and settle. JSON, except taken messages.

Groups are created, shown and deleted by the operations of subscriptions. A waiting take ends if its
client leaves or loses its right; messages leased to it are released.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import JSON_ERRORS, Operation
from api.http.protocol.media_types import kept, media_types_of
from api.http.query_parameters import id_of, limit_of, values_of, wait_of
from api.http.request_body import SMALL_BODY_BYTES_MAX, read_body
from api.openapi.group_schemas import (
    GROUP_CONTENT,
    MEMBERS_CONTENT,
    OPEN_CONTENT,
    OPEN_QUERY,
    SEEK_CONTENT,
    SETTINGS_CONTENT,
    SETTLE_CONTENT,
    SETTLED_CONTENT,
    TAKE_CONTENT,
    TAKE_QUERY,
    TAKEN_CONTENT,
)
from api.resources.dead_letter_topics import check_may_name
from api.resources.subscriptions import SUBSCRIPTION
from api.resources.waiting import wait_for
from tms.core.errors import InvalidRequest, Unavailable
from tms.core.values.groups import Releases, Settle, Take, Taken
from tms.security.resources import Action
from tms.wire import json_groups, json_takes
from tms.wire.avro_taken import encode_taken
from tms.wire.json_bodies import JSON
from tms.wire.media_types import AVRO_FRAMES_TYPE, AVRO_TYPE

_OPEN_DEFAULT, _OPEN_MAX = 100, 1_000


async def settings(exchange: Exchange) -> None:
    """Change a group's settings."""
    body = await read_body(exchange, SMALL_BODY_BYTES_MAX)
    exchange.check_json()
    changes, expected_version = json_groups.decode_changes(body)
    await _check_dead_letter(exchange, changes)
    changed = await exchange.context.services.groups.set_group(
        exchange.topic_id, exchange.subscription, changes, expected_version
    )
    await exchange.answer(OK, json_groups.encode_group(changed), JSON_TYPE)


async def _check_dead_letter(exchange: Exchange, changes: Mapping[str, Any]) -> None:
    """Raise `NotPermitted` if the changes name a topic of dead letters the caller may not use."""
    if not ("dead_letter" in changes or changes.get("attempts_max")):
        return
    group = await exchange.context.services.groups.group(exchange.topic_id, exchange.subscription)
    before = group.settings.dead_letter
    if changes.get("dead_letter", before) != before or not before:
        attempts_max, dead_letter = changes.get("attempts_max", 0), changes.get("dead_letter", "")
        await check_may_name(exchange, attempts_max, dead_letter)


async def take(exchange: Exchange) -> None:
    """Lease messages to a member."""
    body = await read_body(exchange, SMALL_BODY_BYTES_MAX)
    is_avro = _wants_avro(exchange.headers.get(b"accept", b""))
    if not is_avro:
        exchange.check_only_json()
    elif (body_format := exchange.body_format()) is not JSON:
        raise InvalidRequest(
            "unsupported_content_type", content_type=body_format.content_type, expected="JSON"
        )
    request = json_takes.decode_take(body)
    values = values_of(exchange.query)
    wait_s = wait_of(values, exchange.context.limits.poll_wait_s_max)
    taken = await _taken(exchange, request, 0.0)
    if taken.delivery is None and wait_s > 0:
        waiting = request if request.settle == Settle() else _without_settle(request)
        try:
            answer = await wait_for(
                exchange,
                partial(_taken, exchange, waiting, wait_s),
                give_back=partial(_give_back, exchange, waiting),
            )
        except Unavailable:
            if waiting is request:
                raise
            answer = Taken()  # a repeated settle would be refused
        taken = answer.with_settled(taken.settled)
    if is_avro:
        await exchange.answer(OK, encode_taken(taken), AVRO_FRAMES_TYPE.encode())
    else:
        await exchange.answer(OK, _in_json(taken), JSON_TYPE)


@kept
def _wants_avro(accept: bytes) -> bool:
    """Whether the answer is Avro. Raises `InvalidRequest` (not_acceptable) for another version."""
    for item in media_types_of(accept):
        if item.name == AVRO_TYPE:
            if item.parameters.get("version") != "2":
                raise InvalidRequest("not_acceptable", expected=f"{AVRO_FRAMES_TYPE} or JSON")
            return True
    return False


def _without_settle(take: Take) -> Take:
    """Return a take for the next try: without its settle, and without `anew`."""
    return Take(take.member, take.messages, take.bytes_max, take.lease_s, take.sequence)


async def _taken(exchange: Exchange, take: Take, wait_s: float) -> Taken:
    return await exchange.context.services.groups.take(
        exchange.topic_id, exchange.subscription, take, wait_s=wait_s, caller=exchange.caller
    )


async def _give_back(exchange: Exchange, take: Take, taken: Taken) -> None:
    if taken.delivery is not None:
        await exchange.context.services.groups.settle(
            exchange.topic_id,
            exchange.subscription,
            take.member,
            Settle(releases=[Releases(taken.delivery)]),
            caller=exchange.caller,
        )


def _in_json(taken: Taken) -> bytes:
    parts = [json_takes.encode_taken_head(taken)]
    first = True
    for block in taken.blocks:
        parts.append(JSON.encode_block(block, first=first))
        first = False
    parts += (JSON.encode_end(first=first), b"}")
    return b"".join(parts)


async def settle(exchange: Exchange) -> None:
    """Acknowledge, fail, release or extend messages of a member."""
    body = await read_body(exchange, SMALL_BODY_BYTES_MAX)
    exchange.check_only_json()
    member, request = json_takes.decode_settle(body)
    done = await exchange.context.services.groups.settle(
        exchange.topic_id, exchange.subscription, member, request, caller=exchange.caller
    )
    await exchange.answer(OK, json_takes.encode_settled(done), JSON_TYPE)


async def members(exchange: Exchange) -> None:
    """Answer with a group's members."""
    members_seen = await exchange.context.services.groups.members(
        exchange.topic_id, exchange.subscription
    )
    await exchange.answer(OK, json_groups.encode_members(members_seen), JSON_TYPE)


async def open_messages(exchange: Exchange) -> None:
    """Answer with open messages."""
    values = values_of(exchange.query)
    messages = await exchange.context.services.groups.open_messages(
        exchange.topic_id,
        exchange.subscription,
        after=id_of(values, "after") if "after" in values else None,
        limit=min(limit_of(values) or _OPEN_DEFAULT, _OPEN_MAX),
    )
    await exchange.answer(OK, json_groups.encode_open(messages), JSON_TYPE)


async def seek(exchange: Exchange) -> None:
    """Move a group to another place in its topic."""
    body = await read_body(exchange, SMALL_BODY_BYTES_MAX)
    exchange.check_only_json()
    moved = await exchange.context.services.groups.seek(
        exchange.topic_id, exchange.subscription, json_groups.decode_seek(body)
    )
    await exchange.answer(OK, json_groups.encode_group(moved), JSON_TYPE)


_ERRORS = ("subscription_not_found", "subscription_is_single", "topic_not_found")
_BODY_ERRORS = ("invalid_body", "invalid_group", *_ERRORS, *JSON_ERRORS)

_row = partial(Operation, tag="Groups")
OPERATIONS = (
    _row(
        name="changeGroup",
        action=Action.SUBSCRIBE,
        method="PUT",
        path=f"{SUBSCRIPTION}/settings",
        handler=settings,
        summary="Change a group's settings",
        description="Settings that are missing do not change, and neither does the order.",
        request=SETTINGS_CONTENT,
        success="The group.",
        answer=GROUP_CONTENT,
        errors=("subscription_moved", "other_shard", *_BODY_ERRORS),
    ),
    _row(
        name="take",
        action=Action.TAKE,
        method="POST",
        path=f"{SUBSCRIPTION}/take",
        handler=take,
        is_taskless=True,
        summary="Lease messages of a group to a member",
        description=(
            "Nobody else gets the messages until they are settled, or until the lease expires. "
            "`settle` is done first, durably. `limited_by` says why there are fewer messages "
            "than requested. A take with the same `sequence` gets the same delivery again."
        ),
        query=TAKE_QUERY,
        request=TAKE_CONTENT,
        success="The messages, in JSON or, by Accept, in `avro/binary;version=2`; `delivery` is "
        "null if there are none.",
        answer=TAKEN_CONTENT,
        errors=(
            "invalid_member",
            "invalid_message_id",
            "invalid_wait",
            "invalid_query",
            "transactions_elsewhere",
            *_BODY_ERRORS,
        ),
    ),
    _row(
        name="settle",
        action=Action.TAKE,
        method="POST",
        path=f"{SUBSCRIPTION}/settle",
        handler=settle,
        is_taskless=True,
        summary="Acknowledge, fail, release or extend messages",
        description=(
            "Acks are durable when the server answers. `refused` lists each message that cannot "
            "be settled; the others are settled."
        ),
        request=SETTLE_CONTENT,
        success="The number of acknowledged messages, and the refused ones.",
        answer=SETTLED_CONTENT,
        errors=("invalid_member", "invalid_message_id", *_BODY_ERRORS),
    ),
    _row(
        name="listMembers",
        action=Action.SUBSCRIBE,
        method="GET",
        path=f"{SUBSCRIPTION}/members",
        handler=members,
        summary="List a group's members",
        description="These are members that have messages, and those that were seen recently.",
        success="The members.",
        answer=MEMBERS_CONTENT,
        errors=_ERRORS,
    ),
    _row(
        name="listOpenMessages",
        action=Action.SUBSCRIBE,
        method="GET",
        path=f"{SUBSCRIPTION}/open",
        handler=open_messages,
        summary="List a group's open messages",
        description="Messages that were read into the group and are not settled, by id.",
        query=OPEN_QUERY,
        success="The open messages.",
        answer=OPEN_CONTENT,
        errors=("invalid_message_id", "invalid_limit", "invalid_query", *_ERRORS),
    ),
    _row(
        name="seekGroup",
        is_always_audited=True,
        action=Action.SUBSCRIBE,
        method="POST",
        path=f"{SUBSCRIPTION}/seek",
        handler=seek,
        summary="Move a group to another place in its topic",
        description="All open messages are dropped, and earlier acks are refused.",
        request=SEEK_CONTENT,
        success="The group.",
        answer=GROUP_CONTENT,
        errors=("invalid_message_id", *_BODY_ERRORS),
    ),
)
