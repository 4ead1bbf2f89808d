"""Who asks for something."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as far as that is known."""

    principal: str | None = None
    """The name that was authenticated; None if nobody has said who it is."""


ANYBODY = Caller()
