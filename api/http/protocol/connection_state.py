"""The states of a connection, and which may follow which.

`FOLLOWERS` is the whole machine: a connection asserts each change of its state against it. Three
more things are known of a connection, and each is one value: what comes behind the answer at work
(`Then`), and whether reading and writing are paused, which the transport decides.
"""

from enum import Enum, auto


class ConnectionState(Enum):
    """The states of a connection."""

    IDLE = auto()
    """No request is at work. A part of the next head may have come, or whole requests are held."""
    RECEIVING = auto()
    """A request is at work, and a part of its body is still to come."""
    WORKING = auto()
    """A request is at work, and all of it has come."""
    STREAMING = auto()
    """A request is at work, and its answer, of unknown length, has begun."""
    LINGERING = auto()
    """The last answer was written. The server ignores all that the client still sends."""
    CLOSING = auto()
    """Nothing more is written. The connection ends when the client has taken what was."""
    LOST = auto()
    """The connection is gone."""

    followers: "tuple[ConnectionState, ...]"


IDLE, RECEIVING, WORKING, STREAMING, LINGERING, CLOSING, LOST = ConnectionState
"""By names of their own, as those of `Then`: before Python 3.12 a request that finds its ten states
by the class takes a twentieth longer."""
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
    _state.followers = _followers  # found without a hash, as each request changes the state twice


class Then(Enum):
    """The next step of a connection after the answer at work."""

    NEXT = auto()
    """The next request of the client."""
    REST = auto()
    """The requests that have come already: the client has ended its side."""
    END = auto()
    """The end of the connection."""


NEXT, REST, END = Then
