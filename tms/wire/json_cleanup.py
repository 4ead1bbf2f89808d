"""How cleanup stands, in JSON: the fields of `tms.core.cleanup.CleanupState`."""

import msgspec

from tms.core.cleanup import CleanupState
from tms.core.errors import InternalError

_decoder = msgspec.json.Decoder(CleanupState)


def encode_state(state: CleanupState) -> bytes:
    """Return how cleanup stands."""
    return msgspec.json.encode(state)


def decode_state(answer: bytes) -> CleanupState:
    """Return what a server has answered. Raises `InternalError`."""
    try:
        return _decoder.decode(answer)
    except msgspec.MsgspecError as error:
        raise InternalError(reason=str(error)) from None
