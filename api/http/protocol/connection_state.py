"""The states of a connection, and which may follow which.

`FOLLOWERS` is the whole machine: a connection asserts each change of its state against it. A
connection has four more values: whether the current answer is its last one, whether the client has
ended its side, and whether reading and writing are paused, which the transport decides.
"""

from enum import Enum, auto


class ConnectionState(Enum):
    """The states of a connection."""

    IDLE = auto()
    """No request is at work. A part of the next head may have arrived, or requests are held."""
    RECEIVING = auto()
    """A request is at work, and its body is not complete."""
    WORKING = auto()
    """A request is at work, and it is complete."""
    STREAMING = auto()
    """A request is at work, and its answer, of unknown length, has begun."""
    LINGERING = auto()
    """The last answer was written. The server ignores everything that the client still sends."""
    CLOSING = auto()
    """Nothing more is written. The connection ends when the client has read the rest."""
    LOST = auto()
    """The connection is gone."""

    followers: "tuple[ConnectionState, ...]"


IDLE, RECEIVING, WORKING, STREAMING, LINGERING, CLOSING, LOST = ConnectionState
"""Module names: before Python 3.12 a request that looks its ten states up in the class takes a
twentieth longer."""
FOLLOWERS = {
    IDLE: (WORKING, RECEIVING, LINGERING, CLOSING, LOST),
    RECEIVING: (WORKING, STREAMING, LINGERING, CLOSING, LOST),
    WORKING: (IDLE, STREAMING, LINGERING, CLOSING, LOST),
    STREAMING: (IDLE, LINGERING, CLOSING, LOST),
    LINGERING: (CLOSING, LOST),
    CLOSING: (LOST,),
    LOST: (),
}
AT_WORK = (RECEIVING, WORKING, STREAMING)
ENDING = (LINGERING, CLOSING, LOST)
for _state, _followers in FOLLOWERS.items():
    _state.followers = _followers  # without a hash: each request changes it twice
