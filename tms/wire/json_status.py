"""A server's status in JSON: the fields of `status`. A transaction's id is text."""

import msgspec

from tms.core.errors import InternalError
from tms.core.services.status import ServerStatus
from tms.wire.json_values import encode

_decoder = msgspec.json.Decoder(ServerStatus, strict=False)


def encode_status(status: ServerStatus) -> bytes:
    """Return a status as an answer."""
    record = msgspec.to_builtins(status)
    if status.oldest_transaction is not None:
        record["oldest_transaction"] = str(status.oldest_transaction)
    return encode(record)


def decode_status(answer: bytes) -> ServerStatus:
    """Return the status in an answer. Raises `InternalError`."""
    try:
        return _decoder.decode(answer)
    except msgspec.MsgspecError as error:
        raise InternalError(reason=str(error)) from None
