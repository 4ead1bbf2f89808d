"""A server without a store, which serves the registry alone: what it tells of itself."""

from collections.abc import Callable


class Storeless:
    """The services for `/ready` and `/metrics` of a server without a store."""

    def __init__(self, check_ready: Callable[[], None]) -> None:
        """Be ready when `check_ready` does not raise."""
        self.check_ready = check_ready

    @property
    def messaging(self) -> "Storeless":
        """Itself."""
        return self

    async def refresh_metrics(self) -> None:
        """Do nothing: there is nothing to look for."""

    def warnings(self) -> list[str]:
        """Return nothing: nothing fills up."""
        return []
