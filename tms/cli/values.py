"""Values for `tms publish`: JSON that schemas encode."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import typer

from tms.cli.batches import WrongMessage, read_whole
from tms.cli.frames import shown_of
from tms.client.reading.given_messages import GivenMessage
from tms.core.services.records import Encoding, JsonText, Record, SchemaText
from tms.core.services.schemas import LATEST
from tms.core.values.message import Message
from tms.core.values.schema_types import AVRO, SCHEMA_TYPES
from tms.wire.json_values import check_names

_BY_SUFFIX = {each.suffix: name for name, each in SCHEMA_TYPES.items()}


def encoding_of(
    schema: str | None, key_schema: str | None, schema_type: str | None
) -> Encoding | None:
    """Return the encoding of values that options set; None if they set none.

    Raises a usage error.
    """
    if schema is None and key_schema is None:
        if schema_type is not None:
            raise typer.BadParameter("--schema-type is for --schema and --key-schema")
        return None
    if schema_type is not None and schema_type.upper() not in SCHEMA_TYPES:
        types = ", ".join(SCHEMA_TYPES)
        raise typer.BadParameter(f"--schema-type {schema_type} is not valid: give one of {types}")
    return Encoding(
        _schema_of(schema, schema_type, "--schema"),
        _schema_of(key_schema, schema_type, "--key-schema"),
    )


def _schema_of(choice: str | None, schema_type: str | None, option: str) -> SchemaText | str | None:
    if choice is None or choice == LATEST:
        return choice
    path = Path(choice)
    try:
        text = read_whole(path).decode()
    except UnicodeDecodeError as error:
        reason = f"{choice} cannot be read: it is not UTF-8: {error}"
        raise typer.BadParameter(reason, param_hint=option) from None
    kind = schema_type.upper() if schema_type else _BY_SUFFIX.get(path.suffix, AVRO)
    return SchemaText(text, kind)


def as_values(messages: Sequence[GivenMessage], encoding: Encoding) -> list[Record]:
    """Return records of messages whose payloads, or keys, are JSON for schemas to encode.

    Raises `WrongMessage`.
    """
    whole = (each if isinstance(each, Message) else Message(each) for each in messages)
    return [_record(index, each, encoding) for index, each in enumerate(whole)]


def _json(index: int, text: bytes) -> JsonText:
    try:
        check_names(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WrongMessage(index, f"{error}: {shown_of(text)}") from None
    return JsonText(text)


def _record(index: int, message: Message, encoding: Encoding) -> Record:
    value = message.payload if encoding.schema is None else _json(index, message.payload)
    key = message.key
    return Record(
        value,
        key if key is None or encoding.key_schema is None else _json(index, key),
        message.headers,
        message.is_tombstone,
    )
