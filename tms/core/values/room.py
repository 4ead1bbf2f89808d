"""How much of its disk a store in a folder uses."""

from typing import NamedTuple


class Room(NamedTuple):
    """Room on a disk, in bytes."""

    used_bytes: int
    """The bytes of the store's files."""
    free_bytes: int
    """The bytes that an unprivileged process may still use."""
    disk_bytes: int = 0
    """The size of the whole disk."""
