"""The answer to a take in `avro/binary;version=2`: a record with a poll's messages.

    record Taken {
        union {long, null} delivery; long lease_ms; union {string, null} limited_by;
        union {long, null} stopped_at; array<int> attempts; long settled;
        array<record Refused {long delivery; union {bytes, null} id; string reason;}> refused;
        messages, as the answer to a poll in this format
    }

Attempts are empty if all are 1.
"""

from typing import Any, Final, TypeVar

from tms.core.values.groups import LimitedBy, Refusal, RefusedMessage, Settled, Taken
from tms.wire.avro import AvroReader, array, invalid, number, optional, sized
from tms.wire.avro_frames import AVRO_FRAMES, CONSUME_FRAMES_SCHEMA
from tms.wire.avro_runs import AvroRunsDecoder

TAKEN_SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Taken",
    "fields": [
        {"name": "delivery", "type": ["long", "null"]},
        {"name": "lease_ms", "type": "long"},
        {"name": "limited_by", "type": ["string", "null"]},
        {"name": "stopped_at", "type": ["long", "null"]},
        {"name": "attempts", "type": {"type": "array", "items": "int"}},
        {"name": "settled", "type": "long"},
        {
            "name": "refused",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Refused",
                    "fields": [
                        {"name": "delivery", "type": "long"},
                        {"name": "id", "type": ["bytes", "null"]},
                        {"name": "reason", "type": "string"},
                    ],
                },
            },
        },
        {"name": "messages", "type": CONSUME_FRAMES_SCHEMA},
    ],
}

Reason = TypeVar("Reason", LimitedBy, Refusal)


def encode_taken(taken: Taken) -> bytes:
    """Return the answer to a take."""
    limited, settled = taken.limited_by, taken.settled
    parts = [
        _number(taken.delivery),
        number(round(taken.lease_s * 1000)),
        optional(None if limited is None else sized(limited.value.encode())),
        _number(taken.stopped_at),
        array([number(attempt) for attempt in taken.attempts]),
        number(settled.settled),
        array(
            [
                number(each.delivery)
                + optional(None if each.id is None else sized(each.id))
                + sized(each.reason.value.encode())
                for each in settled.refused
            ]
        ),
    ]
    first = True
    for block in taken.blocks:
        parts.append(AVRO_FRAMES.encode_block(block, first=first))
        first = False
    parts.append(AVRO_FRAMES.encode_end(first=first))
    return b"".join(parts)


def _number(value: int | None) -> bytes:
    return optional(None if value is None else number(value))


def decode_taken(answer: bytes) -> Taken:
    """Return the answer to a take. Raises `InvalidRequest` if it is not one."""
    reader = AvroReader(answer)
    delivery = reader.number() if reader.has_value() else None
    lease_s = reader.number() / 1000
    limited_by = _one_of(LimitedBy, reader.text()) if reader.has_value() else None
    stopped_at = reader.number() if reader.has_value() else None
    attempts = [reader.number() for _ in reader.items()]
    settled = reader.number()
    refused = [
        RefusedMessage(
            reader.number(),
            reader.sized() if reader.has_value() else None,
            _one_of(Refusal, reader.text()),
        )
        for _ in reader.items()
    ]
    messages = AvroRunsDecoder()
    block = messages.feed(reader.rest())
    messages.close()
    blocks = (block,) if block.count else ()
    if attempts and len(attempts) != block.count:
        raise invalid("not one attempt for each message")
    return Taken(
        delivery, lease_s, blocks, attempts, limited_by, stopped_at, Settled(settled, refused)
    )


def _one_of(kind: type[Reason], text: str) -> Reason:
    try:
        return kind(text)
    except ValueError as error:
        raise invalid(str(error)) from None
