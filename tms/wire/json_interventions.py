"""Bodies of an operator's actions on a group's open messages, both ways: JSON only."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from tms.core.errors import InvalidRequest
from tms.core.values.groups import SETTLED_IDS_MAX
from tms.core.values.message import parse_id
from tms.wire.json_fields import Count, MessageIdText
from tms.wire.json_takes import MemberName
from tms.wire.json_values import decode, decode_answer, encode

OpenIds = Annotated[list[MessageIdText], msgspec.Meta(max_length=SETTLED_IDS_MAX)]


class SkipBody(msgspec.Struct, forbid_unknown_fields=True):
    """Open messages to skip."""

    ids: OpenIds


class SkippedBody(msgspec.Struct):
    """How many messages were skipped."""

    skipped: Count


class ReleaseBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Leased messages to take back: those with `ids`, and all of `member`."""

    ids: OpenIds = []
    member: MemberName | None = None
    failed: Annotated[bool, msgspec.Meta(description="Count an attempt, as a nack does.")] = False


class ReleasedBody(msgspec.Struct):
    """How many messages were taken back."""

    released: Count


def encode_skip(ids: Sequence[bytes]) -> bytes:
    """Return the body that skips messages."""
    return encode(SkipBody([each.hex() for each in ids]))


def decode_skip(body: bytes) -> list[bytes]:
    """Return the ids of the messages to skip."""
    return [parse_id(each) for each in decode(SkipBody, body).ids]


def encode_skipped(count: int) -> bytes:
    """Return the answer that says how many were skipped."""
    return encode(SkippedBody(count))


def decode_skipped(answer: bytes) -> int:
    """Return how many messages a server skipped."""
    return decode_answer(SkippedBody, answer).skipped


def encode_release(ids: Sequence[bytes], member: str | None, *, failed: bool) -> bytes:
    """Return the body that takes messages back."""
    return encode(ReleaseBody([each.hex() for each in ids], member, failed))


def decode_release(body: bytes) -> tuple[list[bytes], str | None, bool]:
    """Return the ids, the member, and whether to count an attempt."""
    value = decode(ReleaseBody, body)
    if not value.ids and value.member is None:
        raise InvalidRequest("invalid_body", format="json", expected="ids or member")
    return [parse_id(each) for each in value.ids], value.member, value.failed


def encode_released(count: int) -> bytes:
    """Return the answer that says how many were taken back."""
    return encode(ReleasedBody(count))


def decode_released(answer: bytes) -> int:
    """Return how many messages a server took back."""
    return decode_answer(ReleasedBody, answer).released
