"""How cleanup, the cluster and the clock stand, in JSON: the fields of their states in `tms.core`.

And the step of a clock that is accepted.
"""

import msgspec

from tms.core.cleanup import CleanupState
from tms.core.cluster import ClusterState
from tms.core.errors import InvalidRequest
from tms.core.trusted_clock import ClockState
from tms.wire.json_values import decode_answer, encode


class StepBody(msgspec.Struct, forbid_unknown_fields=True):
    """A step that is accepted."""

    step_s: int


_step_decoder = msgspec.json.Decoder(StepBody)
_clock_decoder = msgspec.json.Decoder(ClockState)
_cleanup_decoder = msgspec.json.Decoder(CleanupState)
_cluster_decoder = msgspec.json.Decoder(ClusterState)


def encode_state(state: CleanupState | ClusterState | ClockState) -> bytes:
    """Return how it stands."""
    return encode(state)


def decode_cleanup(answer: bytes) -> CleanupState:
    """Return what a server has answered. Raises `InternalError`."""
    state: CleanupState = decode_answer(_cleanup_decoder, answer)
    return state


def decode_cluster(answer: bytes) -> ClusterState:
    """Return what a server has answered. Raises `InternalError`."""
    state: ClusterState = decode_answer(_cluster_decoder, answer)
    return state


def decode_clock(answer: bytes) -> ClockState:
    """Return what a server has answered. Raises `InternalError`."""
    state: ClockState = decode_answer(_clock_decoder, answer)
    return state


def encode_step(step_s: int) -> bytes:
    """Return the body that accepts a step of so many seconds."""
    return encode(StepBody(step_s))


def decode_step(body: bytes) -> int:
    """Return the step that is accepted. Raises `InvalidRequest` (invalid_step)."""
    try:
        return _step_decoder.decode(body).step_s
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest("invalid_step", reason=str(error)) from None
