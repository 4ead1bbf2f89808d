"""A server without a store, which serves the registry alone: what it tells of itself."""


class Storeless:
    """What `/ready` and `/metrics` ask of services, where there are none."""

    @property
    def messaging(self) -> "Storeless":
        """Itself."""
        return self

    def check_ready(self) -> None:
        """Do nothing: what has to wait for the log waits by itself."""

    async def refresh_metrics(self) -> None:
        """Do nothing: there is nothing to look for."""
