"""What a store in this process is opened for."""

from enum import Enum


class StoreAccess(Enum):
    """What the opening may do. Whatever it is, LevelDB recovers what its log has."""

    READ = "read"
    """Nothing: rows and recorded format stay as they are, and writes are refused."""
    WRITE = "write"
    """Give a store of an older format the present one."""
    CREATE = "create"
    """That, and create the store if there is none."""
