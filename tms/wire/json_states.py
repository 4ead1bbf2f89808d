"""How cleanup and the cluster stand, in JSON: the fields of their states in `tms.core`.

Write pointers are text (`json_ids`), as which the decoder takes them too.
"""

from typing import Any

import msgspec

from tms.core.cleanup import CleanupState
from tms.core.cluster import ClusterState
from tms.core.inspection import Bounds
from tms.wire.json_values import decode_answer, encode

_cleanup_decoder = msgspec.json.Decoder(CleanupState, strict=False)
_cluster_decoder = msgspec.json.Decoder(ClusterState)


def told_bounds(bounds: Bounds | CleanupState) -> dict[str, Any]:
    """Return values for JSON of what has bounds, and of the invalid list."""
    told: dict[str, Any] = msgspec.to_builtins(bounds)
    for bound in told["bounds"]:
        bound["write_pointer"] = str(bound["write_pointer"])
    invalid = told["invalid"] or {}
    invalid |= {
        name: str(invalid[name]) for name in ("oldest", "held_by") if invalid.get(name) is not None
    }
    return told


def encode_cleanup(state: CleanupState) -> bytes:
    """Return how it stands."""
    return encode(told_bounds(state))


def encode_cluster(state: ClusterState) -> bytes:
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
