"""Durable changes of groups, as requests to the writer. Each is checked within its flush."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tms.core.errors import (
    AckRefused,
    StoreUnavailable,
    SubscriptionMoved,
)
from tms.core.services.commits import Carried
from tms.core.services.group_commit import Write
from tms.core.values.batch import Batch
from tms.core.values.group_settings import GroupSettings, Order
from tms.core.values.groups import (
    Acks,
    CommitAcks,
    Nacks,
    Releases,
    Settle,
    Settled,
)
from tms.core.values.subscriptions import SharedSubscription, SubscriptionPosition
from tms.messaging.groups.commands import GroupCommands
from tms.messaging.groups.loaded import LoadedGroups
from tms.messaging.groups.loaded_group import LoadedGroup
from tms.messaging.groups.open_entries import Taker
from tms.messaging.groups.snapshots import encode_snapshot, freeze
from tms.messaging.groups.state import OpenMessages
from tms.messaging.loaded_topics import TopicState
from tms.messaging.subscriptions import Creation, Positions, PositionsWrite, PositionsWriting

if TYPE_CHECKING:
    from tables.store_tables import StoreTables

_ID_BYTES = 60
"""Roughly the memory that an id takes while its request waits."""


class GroupCreation(Creation):
    """A new group: its position, and its first snapshot."""

    def __init__(
        self,
        writing: PositionsWriting,
        tables: "StoreTables",
        positions: Positions,
        *,
        name: str,
        settings: GroupSettings,
        after: bytes | None,
        count_max: int,
    ) -> None:
        """Create a group, if the topic has fewer than `count_max` subscriptions."""
        super().__init__(writing, positions, name, after, count_max)
        self._table_of_groups = tables.groups
        self._settings = settings

    def _create(self, batch: Batch, state: TopicState, version: int) -> SubscriptionPosition:
        first = OpenMessages(by_key=self._settings.order is Order.KEY)
        first.through, first.floor, first.last_delivery = self._after, version, version
        snapshot = encode_snapshot(freeze(first))
        self._table_of_groups.begin(batch, state.prefix, self._name, version, snapshot)
        return SharedSubscription(
            topic_id=state.topic.id,
            name=self._name,
            after=self._after,
            version=version,
            created=version,
            settings=self._settings,
        )


class GroupChange(PositionsWrite):
    """A change of a group's settings."""

    def __init__(
        self,
        writing: PositionsWriting,
        positions: Positions,
        group: LoadedGroup,
        changes: Mapping[str, Any],
        expected_version: int | None,
    ) -> None:
        super().__init__(writing, [positions])
        self._group = group
        self._changes = changes
        self._expected_version = expected_version
        self._changed: SharedSubscription | None = None

    def add_rows(self, batch: Batch, now_ms: int) -> None:  # noqa: ARG002
        """Put the row, if the group has the expected version."""
        [positions], name = self._positions, self._group.name
        self._group.check_current()
        current = positions.current[name]
        assert isinstance(current, SharedSubscription)
        assert current.created == self._group.created, "a group that is current is of this life"
        if self._expected_version not in (None, current.version):
            raise SubscriptionMoved(
                topic=str(current.topic_id),
                subscription=name,
                expected_version=self._expected_version,
                version=current.version,
            )
        self._table.check_unanswered(positions.state.prefix, name)
        settings = replace(current.settings, **self._changes)
        changed = replace(current, settings=settings, version=current.version + 1)
        positions.current[name] = self._changed = changed
        self._versions.record(changed.version)
        self._table.put(batch, positions.state.prefix, changed)
        self._group.in_use += 1  # until it is durable; a failed flush drops the group

    def on_durable(self) -> None:
        """Apply the settings in memory."""
        assert self._changed is not None
        self._group.in_use -= 1
        self._positions[0].durable[self._group.name] = self._changed
        commands, settings = self._group.commands, self._changed.settings
        if commands.settings.paused and self._changes.get("paused") is False:
            commands.deaths.reset()
        # If too many messages die, the pause may not be stored yet.
        commands.settings = replace(settings, paused=settings.paused or commands.deaths.is_over)
        self._group.ring()


class GroupDeletion(PositionsWrite):
    """The deletion of a group.

    The group stays in memory until the flush is over, and refuses everything else. Callers that
    look it up wait, so that none loads it again from rows that are about to be deleted.
    """

    def __init__(
        self,
        writing: PositionsWriting,
        positions: Positions,
        group: LoadedGroup,
        groups: LoadedGroups,
    ) -> None:
        super().__init__(writing, [positions])
        self._group = group
        self._groups = groups
        self._last_number = 0

    def add_rows(self, batch: Batch, now_ms: int) -> None:  # noqa: ARG002
        """Delete its rows."""
        [positions], group = self._positions, self._group
        group.check_current()
        if group.snapshotting is not None:
            raise StoreUnavailable(reason="a snapshot of the group is being written; try again")
        now = positions.current[group.name]
        self._table.check_unanswered(positions.state.prefix, group.name)
        group.log.delete(batch)
        batch.require_atomic()
        del positions.current[group.name]
        # A later group of this name has numbers above all rows of this one.
        self._last_number = max(now.version + 1, group.log.next_number)
        self._versions.record(self._last_number)
        if self._mark is not None:
            self._mark.cover(batch, self._last_number)
        self._table.delete(batch, positions.state.prefix, now)
        self._groups.end(group)

    def on_durable(self) -> None:
        """Remove the group from memory."""
        if self._mark is not None:
            self._mark.is_durable(self._last_number)
        self._positions[0].durable.pop(self._group.name, None)
        self._groups.drop(self._group)


class GroupSettle(Write):
    """Acks, nacks and releases of a member."""

    def __init__(
        self, group: LoadedGroup, groups: LoadedGroups, taker: Taker, settle: Settle
    ) -> None:
        named: list[Acks | Nacks | Releases] = [*settle.acks, *settle.nacks, *settle.releases]
        self.size_bytes = 200 + _ID_BYTES * sum(len(request.ids or ()) for request in named)
        self._group = group
        self._groups = groups
        self._taker = taker
        self._settle = settle
        self._settled = Settled(0)

    def add_rows(self, batch: Batch, now_ms: int) -> None:  # noqa: ARG002
        """Apply the change; `LoadedGroups` adds the group's row."""
        group, now_ms = self._group, self._groups.time.now_ms()
        group.check_current()
        self._groups.end_leases(group)
        self._settled = group.commands.settle(self._taker, self._settle, now_ms)
        self._groups.edited(group)

    def on_durable(self) -> None:
        """Wake the waiting takes: messages may be free."""
        self._group.ring()

    def result(self) -> Settled:
        """Return what was settled, and what was refused."""
        return self._settled


class GroupSeek(Write):
    """A move of a group to another place in its topic."""

    size_bytes = 200

    def __init__(self, group: LoadedGroup, groups: LoadedGroups, through: bytes | None) -> None:
        self._group = group
        self._groups = groups
        self._through = through

    def add_rows(self, batch: Batch, now_ms: int) -> None:  # noqa: ARG002
        """Apply the change; `LoadedGroups` adds the group's row."""
        self._group.check_current()
        self._group.commands.seek(self._through, self._groups.time.now_ms())
        self._groups.edited(self._group)

    def on_durable(self) -> None:
        """Wake the waiting takes, so that they check again."""
        self._group.ring()


class GroupIntervention(Write):
    """An intervention of an operator on open messages."""

    size_bytes = 200

    def __init__(
        self,
        group: LoadedGroup,
        groups: LoadedGroups,
        act: Callable[[GroupCommands, int], int],
    ) -> None:
        """Call `act` with the commands of a group and the time in ms."""
        self._group = group
        self._groups = groups
        self._act = act
        self._count = 0

    def add_rows(self, batch: Batch, now_ms: int) -> None:  # noqa: ARG002
        """Apply the change; `LoadedGroups` adds the group's row."""
        self._group.check_current()
        self._count = self._act(self._group.commands, self._groups.time.now_ms())
        self._groups.edited(self._group)

    def on_durable(self) -> None:
        """Wake the waiting takes, so that they check again."""
        self._group.ring()

    def result(self) -> int:
        """Return the number of messages."""
        return self._count


class CarriedAcks(Carried):
    """The acks of a commit, in any groups: all of them, or none."""

    def __init__(
        self,
        groups: LoadedGroups,
        acks: Sequence[tuple[LoadedGroup, Sequence[CommitAcks]]],
        principal: str | None,
    ) -> None:
        self.size_bytes = sum(
            200 + _ID_BYTES * len(a.ids) for _, commit_acks in acks for a in commit_acks
        )
        self._groups = groups
        self._acks = acks
        self._principal = principal

    def check(self, write_pointers: Collection[int]) -> None:  # noqa: ARG002
        """Raise `AckRefused` if any ack is refused."""
        refused = []
        for group, acks in self._acks:
            group.check_current()
            refused += group.commands.refusals(acks, self._principal)
        if refused:
            raise AckRefused(
                refused=[
                    {
                        "delivery": refusal.delivery,
                        "id": None if refusal.id is None else refusal.id.hex(),
                        "reason": refusal.reason.value,
                    }
                    for refusal in refused
                ]
            )

    def add_rows(self, batch: Batch, now_ms: int) -> None:  # noqa: ARG002
        """Acknowledge; `check` has passed in this flush."""
        now_ms = self._groups.time.now_ms()
        for group, acks in self._acks:
            group.commands.acknowledge(acks, now_ms)
            self._groups.edited(group)

    def on_durable(self) -> None:
        """Wake the waiting takes: keys may be free."""
        for group, _ in self._acks:
            group.ring()
