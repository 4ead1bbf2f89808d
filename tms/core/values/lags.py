"""How far readers are behind their topics: subscriptions, and groups."""

from collections.abc import Sequence
from dataclasses import dataclass

from tms.core.values.subscriptions import SubscriptionKind


@dataclass(frozen=True, slots=True)
class Hindrance:
    """Something that keeps a group from working."""

    text: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderLag:
    """A subscription or a group, and how far it is behind."""

    namespace: str
    topic: str
    name: str
    kind: SubscriptionKind
    messages: int
    """How many messages it still has to read, up to a bound; a group's open ones are extra."""
    seconds: float
    """The age of the oldest of them; 0 if there are none."""
    is_at_least: bool = False
    """Whether the count reached the bound, so there may be more."""
    open: int = 0
    """How many messages of a group are open."""
    hindrances: Sequence[Hindrance] = ()
    """The things that keep a group from working."""

    @property
    def place(self) -> str:
        """Its topic, as transactions report it."""
        return f"{self.namespace}:{self.topic}"
