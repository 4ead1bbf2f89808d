"""How this process opens a store: to read, write or create it."""

from enum import Enum


class StoreAccess(Enum):
    """The rights of an opening. With any of them LevelDB recovers its log."""

    READ = "read"
    """Read only: rows and the recorded format stay as they are, and writes are refused."""
    WRITE = "write"
    """Upgrade a store of an older format."""
    CREATE = "create"
    """Upgrade it, or create the store if there is none."""
