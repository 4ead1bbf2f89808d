"""The states of a connection, and which may follow which.

`FOLLOWERS` is the whole machine: a connection asserts each change of its state against it. Three
more things are known of a connection, and each is one value: what comes behind the answer at work
(`Then`), and whether reading and writing are paused, which the transport decides.
"""

from enum import Enum, auto


class ConnectionState(Enum):
    """What a connection does."""

    IDLE = auto()
    """No request is at work. A part of the next head may have come, or whole requests are held."""
    RECEIVING = auto()
    """A request is at work, and a part of its body is still to come."""
    WORKING = auto()
    """A request is at work, and all of it has come."""
    STREAMING = auto()
    """A request is at work, and its answer, of unknown length, has begun."""
    LINGERING = auto()
    """The last answer was written. What the client still sends is passed over."""
    CLOSING = auto()
    """Nothing more is written. The connection ends when the client has taken what was."""
    LOST = auto()
    """The connection is gone."""

    followers: "tuple[ConnectionState, ...]"


FOLLOWERS = {
    ConnectionState.IDLE: (
        ConnectionState.WORKING,
        ConnectionState.RECEIVING,
        ConnectionState.LINGERING,
        ConnectionState.CLOSING,
        ConnectionState.LOST,
    ),
    ConnectionState.RECEIVING: (
        ConnectionState.WORKING,
        ConnectionState.STREAMING,
        ConnectionState.LINGERING,
        ConnectionState.CLOSING,
        ConnectionState.LOST,
    ),
    ConnectionState.WORKING: (
        ConnectionState.IDLE,
        ConnectionState.STREAMING,
        ConnectionState.LINGERING,
        ConnectionState.CLOSING,
        ConnectionState.LOST,
    ),
    ConnectionState.STREAMING: (
        ConnectionState.IDLE,
        ConnectionState.LINGERING,
        ConnectionState.CLOSING,
        ConnectionState.LOST,
    ),
    ConnectionState.LINGERING: (ConnectionState.CLOSING, ConnectionState.LOST),
    ConnectionState.CLOSING: (ConnectionState.LOST,),
    ConnectionState.LOST: (),
}
AT_WORK = (ConnectionState.RECEIVING, ConnectionState.WORKING, ConnectionState.STREAMING)
ENDING = (ConnectionState.LINGERING, ConnectionState.CLOSING, ConnectionState.LOST)
for _state, _followers in FOLLOWERS.items():
    _state.followers = _followers  # found without a hash, as each request changes the state twice


class Then(Enum):
    """What comes behind the answer at work."""

    NEXT = auto()
    """The next request of the client."""
    REST = auto()
    """What has come already: the client has ended its side."""
    END = auto()
    """The end of the connection."""
