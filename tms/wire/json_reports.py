"""The answers to GET of transactions and their owners: JSON, both ways."""

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec

from tms.core.services.transactions import TransactionInfo, TransactionStatus
from tms.core.values.owners import OwnerInfo
from tms.wire.json_fields import BASE64_TEXT, Count, TimeMs, described_by
from tms.wire.json_ids import ToldPointer, pointer_of
from tms.wire.json_transactions import TYPE_NAMES, TYPES, Kind
from tms.wire.json_values import body_of, decode, encode, value_of


class InfoBody(msgspec.Struct):
    """A transaction."""

    transaction_id: ToldPointer
    status: TransactionStatus
    type: Kind
    write_pointers: list[ToldPointer]
    started_ms: TimeMs
    age_ms: Count
    expires_ms: TimeMs | None
    client: str
    owner: str | None
    sequence: Count | None
    topics: list[str]
    principal: str | None = None
    """A server from before principals does not report it."""
    ends_in_ms: Count | None = None
    """As `principal`."""


class OneInfoBody(InfoBody):
    """One transaction."""

    transaction: Annotated[
        bytes | msgspec.UnsetType,
        described_by({**BASE64_TEXT, "description": "Only while it is in progress."}),
    ] = msgspec.UNSET
    """msgspec writes bytes as base64, and omits unset fields."""


class OwnerBody(msgspec.Struct):
    """A remembered owner of transactions."""

    owner: str
    sequence: Count
    transaction_id: ToldPointer
    committed_ms: TimeMs
    age_ms: Count
    origin: str | None
    principal: str | None


class SizeBody(msgspec.Struct):
    """The number of transactions on the invalid list."""

    size: Count


def _info_body(info: TransactionInfo) -> OneInfoBody:
    return body_of(
        OneInfoBody,
        info,
        transaction_id=str(info.transaction_id),
        type=TYPE_NAMES[info.type],
        write_pointers=[*map(str, info.write_pointers)],
        topics=list(info.topics),
        transaction=msgspec.UNSET,
    )


def _info_of(body: InfoBody) -> TransactionInfo:
    return value_of(
        TransactionInfo,
        body,
        transaction_id=pointer_of(body.transaction_id, "transaction_id"),
        type=TYPES[body.type],
        write_pointers=tuple(pointer_of(one, "write_pointers") for one in body.write_pointers),
        topics=tuple(body.topics),
    )


def info_record(info: TransactionInfo) -> dict[str, Any]:
    """Return a transaction as values for JSON."""
    record: dict[str, Any] = msgspec.to_builtins(_info_body(info))
    return record


def encode_info(info: TransactionInfo, transaction: bytes | None = None) -> bytes:
    """Return a transaction as an answer, with the codec's bytes if they are given."""
    body = _info_body(info)
    if transaction is not None:
        body.transaction = transaction
    return encode(body)


def decode_info(body: bytes) -> tuple[TransactionInfo, bytes | None]:
    """Return the transaction in an answer, and the codec's bytes if present."""
    value = decode(OneInfoBody, body)
    return _info_of(value), None if value.transaction is msgspec.UNSET else value.transaction


def encode_infos(infos: Iterable[TransactionInfo]) -> bytes:
    """Return the list of transactions."""
    return encode([_info_body(info) for info in infos])


def decode_infos(body: bytes) -> list[TransactionInfo]:
    """Return the transactions in an answer."""
    return [_info_of(value) for value in decode(list[InfoBody], body)]


def encode_owners(owners: Iterable[OwnerInfo]) -> bytes:
    """Return the list of owners."""
    return encode([_owner_body(owner) for owner in owners])


def owner_record(owner: OwnerInfo) -> dict[str, Any]:
    """Return an owner as values for JSON."""
    record: dict[str, Any] = msgspec.to_builtins(_owner_body(owner))
    return record


def _owner_body(owner: OwnerInfo) -> OwnerBody:
    fields = owner._asdict() | {"transaction_id": str(owner.transaction_id)}
    return OwnerBody(**fields)


def decode_owners(body: bytes) -> list[OwnerInfo]:
    """Return the owners in an answer."""
    return [
        OwnerInfo(
            **msgspec.structs.asdict(bodies)
            | {"transaction_id": pointer_of(bodies.transaction_id, "transaction_id")}
        )
        for bodies in decode(list[OwnerBody], body)
    ]


def encode_size(count: int) -> bytes:
    """Return the size of the invalid list."""
    return encode(SizeBody(count))


def decode_size(body: bytes) -> int:
    """Return the size of the invalid list in an answer."""
    return decode(SizeBody, body).size
