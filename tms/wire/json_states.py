"""How cleanup and the cluster stand, in JSON: the fields of their states in `tms.core`."""

import msgspec

from tms.core.cleanup import CleanupState
from tms.core.cluster import ClusterState
from tms.wire.json_values import decode_answer, encode

_cleanup_decoder = msgspec.json.Decoder(CleanupState)
_cluster_decoder = msgspec.json.Decoder(ClusterState)


def encode_state(state: CleanupState | ClusterState) -> bytes:
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
