"""The positions of one topic's subscriptions in memory, and what the writer does to them.

All positions of a topic are loaded when one is first asked for, and belong to the topic's state: a
topic that is deleted or loaded anew has them loaded anew. A move is checked and takes effect within
the flush that writes it, so that of two moves from one version the second is refused, also in the
same flush; readers see it once it is durable.

Used from the event loop's thread alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tms.core.errors import SubscriptionExists, SubscriptionMoved, SubscriptionNotFound
from tms.core.subscriptions import Advance, Subscription
from tms.core.tables import Batch, Tables
from tms.core.topic import TopicId
from tms.messaging.topic_state import TopicState

_ROW_BYTES = 200
"""What a queued move weighs, about."""


@dataclass(slots=True)
class Positions:
    """The positions of one generation of a topic, by name."""

    state: TopicState
    current: dict[str, Subscription] = field(default_factory=dict)
    """With what is being written: what a move is checked against."""
    durable: dict[str, Subscription] = field(default_factory=dict)
    """What readers see."""

    def of(self, name: str) -> Subscription:
        """Return the durable position. Raises `SubscriptionNotFound`."""
        return _found(self.durable, self.state, name)


def _found(by_name: dict[str, Subscription], state: TopicState, name: str) -> Subscription:
    found = by_name.get(name)
    if found is None:
        raise SubscriptionNotFound(topic=str(state.topic.id), subscription=name)
    return found


class _PositionsWrite:
    """A write to positions, whose topics it holds."""

    def __init__(self, tables: Tables, positions: Sequence[Positions]) -> None:
        self.size_bytes = _ROW_BYTES * len(positions)
        self._tables = tables
        self._positions = positions

    def accepted(self) -> None:
        """Keep the topics' states in memory."""
        for positions in self._positions:
            positions.state.in_use += 1

    def failed(self) -> None:
        """Nothing: the topics' states are loaded anew, and the positions with them."""

    def finished(self) -> None:
        """Let the topics' states go."""
        for positions in self._positions:
            positions.state.in_use -= 1


class Moves(_PositionsWrite):
    """Moves of positions in any topics, one after another, all or none."""

    def __init__(
        self, tables: Tables, positions: Sequence[Positions], advances: Sequence[Advance]
    ) -> None:
        super().__init__(tables, positions)
        self._advances = advances
        self._moved: list[Subscription] = []

    def check(self) -> None:
        """Raise `SubscriptionMoved`, `SubscriptionNotFound`, where one cannot be made."""
        versions: dict[tuple[TopicId, str], int] = {}
        for positions, advance in zip(self._positions, self._advances, strict=True):
            positions.state.check_current()
            self._tables.subscriptions.check_settled(positions.state.prefix, advance.name)
            now = _found(positions.current, positions.state, advance.name)
            version = versions.get((now.topic_id, now.name), now.version)
            if version != advance.expected_version:
                raise SubscriptionMoved(
                    topic=str(now.topic_id),
                    subscription=now.name,
                    expected_version=advance.expected_version,
                    version=version,
                )
            versions[now.topic_id, now.name] = version + 1

    def put(self, batch: Batch, now_ms: int) -> None:  # noqa: ARG002
        """Add the rows; `check` has passed in this flush. What is in the batch stays together."""
        batch.keep_whole()
        for positions, advance in zip(self._positions, self._advances, strict=True):
            now = positions.current[advance.name]
            moved = replace(now, after=advance.after, version=now.version + 1)
            positions.current[advance.name] = moved
            self._moved.append(moved)
            self._tables.subscriptions.put(batch, positions.state.prefix, moved)

    def add_to(self, batch: Batch, now_ms: int) -> None:
        """Check and add."""
        self.check()
        self.put(batch, now_ms)

    def apply(self) -> None:
        """Show the moves to readers."""
        for positions, moved in zip(self._positions, self._moved, strict=True):
            positions.durable[moved.name] = moved

    def result(self) -> list[Subscription]:
        """Return where the positions are now."""
        return self._moved


class Creation(_PositionsWrite):
    """A new position."""

    def __init__(self, tables: Tables, positions: Positions, subscription: Subscription) -> None:
        super().__init__(tables, [positions])
        self._subscription = subscription

    def add_to(self, batch: Batch, now_ms: int) -> None:  # noqa: ARG002
        """Add the row, unless there is one."""
        [positions], created = self._positions, self._subscription
        positions.state.check_current()
        if created.name in positions.current:
            raise SubscriptionExists(topic=str(created.topic_id), subscription=created.name)
        self._tables.subscriptions.check_settled(positions.state.prefix, created.name)
        positions.current[created.name] = created
        self._tables.subscriptions.put(batch, positions.state.prefix, created)

    def apply(self) -> None:
        """Show it to readers."""
        self._positions[0].durable[self._subscription.name] = self._subscription

    def result(self) -> Subscription:
        """Return the position."""
        return self._subscription


class Deletion(_PositionsWrite):
    """The end of a position."""

    def __init__(self, tables: Tables, positions: Positions, name: str) -> None:
        super().__init__(tables, [positions])
        self._name = name

    def add_to(self, batch: Batch, now_ms: int) -> None:  # noqa: ARG002
        """Delete the row. Raises `SubscriptionNotFound`."""
        [positions] = self._positions
        positions.state.check_current()
        _found(positions.current, positions.state, self._name)
        self._tables.subscriptions.check_settled(positions.state.prefix, self._name)
        del positions.current[self._name]
        self._tables.subscriptions.delete(batch, positions.state.prefix, self._name)

    def apply(self) -> None:
        """Hide it from readers."""
        self._positions[0].durable.pop(self._name, None)

    def result(self) -> None:
        """Return nothing."""
