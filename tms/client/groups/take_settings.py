"""The name of a group's member, and the settings of its takes.

Values that the server would refuse in the middle of the work are refused here at once.
"""

import os
import secrets
import socket
from dataclasses import dataclass

from tms.core.errors import InvalidRequest
from tms.core.values.group_settings import LEASE_S_MAX
from tms.core.values.groups import (
    TAKE_MESSAGES_MAX,
)

HOLD_S_MAX = 3600.0
"""For how long the lease of one message is extended."""
PREFETCH = 10
_HOST = socket.gethostname()


def member_name() -> str:
    """Return a unique name for a member: host, process, and 64 random bits."""
    host = "".join(char if char.isascii() and char.isalnum() else "-" for char in _HOST)
    return f"{host[:64]}:{os.getpid()}:{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True)
class TakeSettings:
    """The settings of takes. Raises `InvalidRequest` (invalid_group)."""

    prefetch: int = PREFETCH
    """How many messages are taken ahead; with 0, one is taken when the program asks for it."""
    lease_s: int | None = None
    hold_s_max: float = HOLD_S_MAX
    one_of_a_key: bool = False
    """Whether a message waits here until the work on an earlier one of its key is done."""

    def __post_init__(self) -> None:
        """Check the bounds."""
        if not 0 <= self.prefetch <= TAKE_MESSAGES_MAX:
            raise InvalidRequest(
                "invalid_group", prefetch=self.prefetch, prefetch_max=TAKE_MESSAGES_MAX
            )
        if self.lease_s is not None and not 1 <= self.lease_s <= LEASE_S_MAX:
            raise InvalidRequest("invalid_group", lease_s=self.lease_s, lease_s_max=LEASE_S_MAX)
        if not self.hold_s_max > 0:
            raise InvalidRequest("invalid_group", hold_s_max=self.hold_s_max)
