"""How a cluster stands, in JSON: the fields of `tms.core.cluster.ClusterState`."""

import msgspec

from tms.core.cluster import ClusterState
from tms.core.errors import InternalError

_decoder = msgspec.json.Decoder(ClusterState)


def encode_cluster(state: ClusterState) -> bytes:
    """Return how it stands."""
    return msgspec.json.encode(state)


def decode_cluster(answer: bytes) -> ClusterState:
    """Return what a server has answered. Raises `InternalError`."""
    try:
        return _decoder.decode(answer)
    except msgspec.MsgspecError as error:
        raise InternalError(reason=str(error)) from None
