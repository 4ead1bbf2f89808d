"""Checks the requests of members, and of the operators of groups. Pure."""

from collections.abc import Sequence

from tms.core.errors import InvalidRequest
from tms.core.limits import JSON_INTEGER_MAX
from tms.core.values.group_settings import LEASE_S_MAX, OPEN_MAX, check_number
from tms.core.values.groups import (
    SETTLED_IDS_MAX,
    TAKE_MESSAGES_MAX,
    Acks,
    CommitAcks,
    Nacks,
    Releases,
    Settle,
    Take,
    check_delay,
    check_member,
)
from tms.core.values.message import check_id


def check_take(take: Take, wait_s: float) -> None:
    """Raise `InvalidRequest` (invalid_group, invalid_wait)."""
    if wait_s < 0:
        raise InvalidRequest("invalid_wait", wait_s=wait_s)
    check_number("messages", take.messages, 1, TAKE_MESSAGES_MAX)
    _check_optional("lease_s", take.lease_s, 1, LEASE_S_MAX)
    _check_optional("bytes", take.bytes_max, 1, JSON_INTEGER_MAX)
    _check_optional("sequence", take.sequence, 0, JSON_INTEGER_MAX)


def check_settle(settle: Settle) -> None:
    """Raise `InvalidRequest` (invalid_group, invalid_message_id)."""
    _check_optional("lease_s", settle.lease_s, 1, LEASE_S_MAX)
    for nacks in settle.nacks:
        check_delay(nacks.delay_s)
    named: list[Acks | Nacks | Releases] = [*settle.acks, *settle.nacks, *settle.releases]
    _check_ids([request.ids or () for request in named], SETTLED_IDS_MAX)


def check_commit_acks(acks: Sequence[CommitAcks]) -> None:
    """Raise `InvalidRequest` (invalid_group, invalid_member, invalid_message_id)."""
    for ack in acks:
        check_member(ack.member)
    _check_ids([ack.ids for ack in acks], OPEN_MAX)


def check_ids(ids: Sequence[bytes], most: int = SETTLED_IDS_MAX) -> None:
    """Raise `InvalidRequest` (invalid_group, invalid_message_id)."""
    _check_ids([ids], most)


def _check_ids(parts: Sequence[Sequence[bytes]], most: int) -> None:
    count = sum(map(len, parts))
    if count > most:
        raise InvalidRequest("invalid_group", ids=count, least=0, most=most)
    for ids in parts:
        for message_id in ids:
            check_id(message_id)


def _check_optional(name: str, value: int | None, least: int, most: int) -> None:
    if value is not None:
        check_number(name, value, least, most)
