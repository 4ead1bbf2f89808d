"""Messages as values in JSON: the answer to a poll with `application/json;decode=true`."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from tms.core.services.payload_values import DecodedValue
from tms.core.values.message import Message
from tms.wire.json_fields import COUNT, MessageIdText, described_by, reference
from tms.wire.json_values import JsonBytes, encode, json_of

_BYTES = reference("GivenBytes")


class DecodedBody(msgspec.Struct, omit_defaults=True):
    """A message, decoded by its schemas."""

    id: MessageIdText
    value: Annotated[
        msgspec.Raw | msgspec.UnsetType | None,
        described_by({"description": "The decoded payload; null if there is no payload."}),
    ] = msgspec.UNSET
    schemaId: Annotated[  # noqa: N815
        int | msgspec.UnsetType,
        described_by({**COUNT, "description": "The id of the schema that the payload names."}),
    ] = msgspec.UNSET
    key: Annotated[JsonBytes | msgspec.UnsetType, described_by(_BYTES)] = msgspec.UNSET
    keyValue: Annotated[  # noqa: N815
        msgspec.Raw | msgspec.UnsetType,
        described_by({"description": "The decoded key, if keys have schemas."}),
    ] = msgspec.UNSET
    headers: Annotated[
        dict[str, JsonBytes] | msgspec.UnsetType,
        described_by({"type": "object", "additionalProperties": _BYTES}),
    ] = msgspec.UNSET
    payload: Annotated[
        JsonBytes | msgspec.UnsetType,
        described_by({**_BYTES, "description": "The bytes that cannot be decoded."}),
    ] = msgspec.UNSET
    error: Annotated[
        str | msgspec.UnsetType, msgspec.Meta(description="Why it cannot be decoded.")
    ] = msgspec.UNSET


def encode_decoded(messages: Sequence[Message], decoded: Sequence[DecodedValue]) -> bytes:
    """Return the elements of the answer's array, without its brackets."""
    rows = [_row(message, value) for message, value in zip(messages, decoded, strict=True)]
    return encode(rows)[1:-1]


def _row(message: Message, decoded: DecodedValue) -> DecodedBody:
    row = DecodedBody(message.id.hex())
    if message.is_tombstone:
        row.value = None
    elif decoded.value is not None:
        row.value = msgspec.Raw(decoded.value)
    if decoded.schema_id is not None:
        row.schemaId = decoded.schema_id
    if decoded.key_value is not None:
        row.keyValue = msgspec.Raw(decoded.key_value)
    elif message.key is not None:
        row.key = json_of(message.key)
    if message.headers:
        row.headers = {name: json_of(value) for name, value in message.headers.items()}
    if decoded.error is not None:
        row.error = decoded.error
        if not message.is_tombstone and decoded.value is None:
            row.payload = json_of(message.payload)
    return row
