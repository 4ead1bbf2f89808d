"""Bodies of dead letters, both ways: JSON only."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from tms.core.errors import InvalidRequest
from tms.core.values.dead_letters import DeadLetter, Disposition, LetterOrigin
from tms.core.values.groups import REDRIVEN_MAX, DeadLetters, Redriven
from tms.core.values.message import parse_id
from tms.wire.json_fields import Count, MessageIdText, TimeMs, described_by, reference
from tms.wire.json_messages import ContentBody, content_of, message_in
from tms.wire.json_takes import Limit, hex_of, id_of
from tms.wire.json_values import decode, decode_answer, encode


class DeadLetterBody(ContentBody):
    """A dead letter, and the message that it was."""

    id: Annotated[MessageIdText, msgspec.Meta(description="Its id in the topic of dead letters.")]
    message_id: Annotated[
        MessageIdText, msgspec.Meta(description="The id that the message had in its topic.")
    ]
    disposition: Disposition
    attempts: Count
    reason: str
    member: str
    at_ms: TimeMs


class DeadLettersBody(msgspec.Struct):
    """Dead letters; if `next` is not null, more may follow."""

    dead_letters: Annotated[
        list[DeadLetterBody],
        described_by({"type": "array", "items": reference("DeadLetter")}),
    ]
    next: MessageIdText | None


LetterIds = Annotated[
    list[MessageIdText],
    msgspec.Meta(max_length=REDRIVEN_MAX, extra_json_schema={"minItems": 1}),
]


class RedriveBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Dead letters to redrive: those with `ids`, or else the oldest `limit` after `after`."""

    ids: LetterIds | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=REDRIVEN_MAX)] = 100
    publish: Annotated[
        bool,
        msgspec.Meta(
            description="Publish the messages anew, for all readers of the topic, instead of "
            "giving them again to this group."
        ),
    ] = False
    after: MessageIdText | None = None


class DropBody(msgspec.Struct, forbid_unknown_fields=True):
    """Dead letters to drop."""

    ids: LetterIds


class RedrivenBody(msgspec.Struct):
    """The outcome of a redrive; `expired` are dead letters whose messages have expired.

    If `next` is not null, more may follow. `limited_by` is the limit of open messages that was
    reached.
    """

    redriven: Count
    expired: list[MessageIdText]
    next: MessageIdText | None = None
    limited_by: Limit = None


class DroppedBody(msgspec.Struct):
    """How many dead letters were dropped."""

    dropped: Count


def letter_body(letter: DeadLetter) -> DeadLetterBody:
    """Return a dead letter as it is shown."""
    origin = letter.origin
    return DeadLetterBody(
        letter.id.hex(),
        origin.id.hex(),
        origin.disposition,
        origin.attempts,
        origin.reason,
        origin.member,
        origin.at_ms,
        **content_of(letter.message),
    )


def letter_record(letter: DeadLetter) -> dict[str, Any]:
    """Return a dead letter as values for JSON."""
    record: dict[str, Any] = msgspec.to_builtins(letter_body(letter))
    return record


def encode_letters(letters: DeadLetters) -> bytes:
    """Return the answer that lists dead letters."""
    return encode(
        DeadLettersBody([letter_body(letter) for letter in letters.letters], hex_of(letters.next))
    )


def decode_letters(answer: bytes, topic: str, group: str) -> DeadLetters:
    """Return the dead letters of a group that a server listed."""
    body = decode_answer(DeadLettersBody, answer)
    letters = [_letter_of(dead_letter, topic, group) for dead_letter in body.dead_letters]
    return DeadLetters(letters, id_of(body.next))


def _letter_of(body: DeadLetterBody, topic: str, group: str) -> DeadLetter:
    origin = LetterOrigin(
        topic,
        group,
        parse_id(body.message_id),
        body.disposition,
        body.attempts,
        body.reason,
        body.member,
        body.at_ms,
    )
    return DeadLetter(parse_id(body.id), origin, message_in(body, origin.id))


def encode_redrive(
    ids: Sequence[bytes] | None, after: bytes | None, limit: int, *, publish: bool
) -> bytes:
    """Return the body of a redrive."""
    texts = None if ids is None else [each.hex() for each in ids]
    return encode(RedriveBody(texts, limit, publish, hex_of(after)))


def decode_redrive(body: bytes) -> tuple[list[bytes] | None, bytes | None, int, bool]:
    """Return the ids, `after`, the limit, and whether messages are published again."""
    value = decode(RedriveBody, body)
    ids = None if value.ids is None else _ids(value.ids)
    return ids, id_of(value.after), value.limit, value.publish


def encode_redriven(outcome: Redriven) -> bytes:
    """Return the answer to a redrive."""
    expired = [each.hex() for each in outcome.expired]
    return encode(RedrivenBody(outcome.redriven, expired, hex_of(outcome.next), outcome.limited_by))


def decode_redriven(answer: bytes) -> Redriven:
    """Return what a redrive answered."""
    body = decode_answer(RedrivenBody, answer)
    expired = [parse_id(each) for each in body.expired]
    return Redriven(body.redriven, expired, id_of(body.next), body.limited_by)


def encode_drop(ids: Sequence[bytes]) -> bytes:
    """Return the body that drops dead letters."""
    return encode(DropBody([each.hex() for each in ids]))


def decode_drop(body: bytes) -> list[bytes]:
    """Return the ids of the dead letters to drop."""
    return _ids(decode(DropBody, body).ids)


def encode_dropped(count: int) -> bytes:
    """Return the answer that says how many were dropped."""
    return encode(DroppedBody(count))


def decode_dropped(answer: bytes) -> int:
    """Return how many dead letters a server dropped."""
    return decode_answer(DroppedBody, answer).dropped


def _ids(texts: Sequence[str]) -> list[bytes]:
    if not texts:
        raise InvalidRequest("invalid_body", format="json", expected="at least one id")
    return [parse_id(text) for text in texts]
