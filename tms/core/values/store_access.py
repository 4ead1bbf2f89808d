"""How a store in this process is opened: to read, to write or to create."""

from enum import Enum


class StoreAccess(Enum):
    """The rights of an opening. With each of them LevelDB recovers its own log."""

    READ = "read"
    """Nothing: rows and recorded format stay as they are, and writes are refused."""
    WRITE = "write"
    """Give a store of an older format the present one."""
    CREATE = "create"
    """That, and create the store if there is none."""
