"""One server's part in the leases of a store's shards: which it claims, and which it gives back.

1. Each shard has a lease of its own, and a `Member` for it. No server controls the others: each
   computes `balanced` from what it sees. If two see different things, the leases decide, and a
   shard may move once too often.
2. A free shard is claimed at once by the server that `balanced` names, and by others once it has
   been free for half of a lease. A server that stops announces that first, so that others are named
   for its shards. No server claims within `SETTLING_S` of registering, so that servers that start
   together share the shards.
3. A server gives a shard back if another one has been named for it for `move_delay_s` without a
   break, or at once if an operator wishes so, or if most other servers do not reach this one. All
   other shards must be served then, except those that several servers could not open, and it moves
   one at a time. If the other server cannot serve the shard and it returns, it is not moved to that
   server again for `FIRST_S`, then twice as long each time, at most `REST_S`, unless wishes have
   changed.
4. A server that found a shard damaged, or of an unknown format, does not claim it for `REST_S`,
   unless a new wish names that server.
5. A server counts as live if it reaches the store, is reached by the others (`tms.cluster.peers`),
   and holds a lease or is not suspected (`tms.cluster.suspicions`). A suspected server gets no free
   shard.
6. A server that could not open a shard records that in its entry, and claims it again only if no
   other does. A shard that several servers could not open does not count in the balance until one
   serves it.
7. A single shard is the whole store, with the store's lease. There is nothing to share, and no wish
   can name a server: so `SETTLING_S` of 2 and `REST_S` of 4 are 0.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from tms.cluster.balance import balanced
from tms.cluster.holding import LEASE, unless
from tms.cluster.instances import ROOT, instances_of
from tms.cluster.lease import RENEWALS, Lease, LeaseRecord
from tms.cluster.member import Member
from tms.cluster.peers import unreachable_of
from tms.cluster.presence import Presence
from tms.cluster.suspicions import FIRST_S, Suspicions
from tms.cluster.wishes import change_wishes, wishes_of
from tms.core.errors import InvalidRequest, StoreCorrupt, StoreFormatUnknown
from tms.core.runtime.supervision import supervised
from tms.core.services.cluster import ClusterState, Instance, Role, ShardStanding, ShardState
from tms.core.services.findings import Finding
from tms.core.values.shards import Sharding

SETTLING_S = 1.0
REST_S = 600.0

LeadShard = Callable[[int, Lease], AbstractAsyncContextManager[object]]
"""Opens the services of a shard under its lease, and closes them."""
FreeShard = Callable[[int, int], object]
"""Frees a shard from its leaders up to a token, as `tms.cluster.member.Free` does."""
OnShardLeader = Callable[[int, str | None, str], None]
"""Called with a shard, and its serving leader's address and boot; None if there is none."""


class MoveCause(StrEnum):
    """Why a shard gets another leader.

    If its lease expired, the new leader reports the cause. Otherwise the leader that gives it back
    does.
    """

    RAN_OUT = "ran_out"
    STOPPED = "stopped"
    BALANCE = "balance"
    WISH = "wish"


OnMoved = Callable[[MoveCause], object]
"""Called for each shard that gets another leader."""


class _GivenBack(NamedTuple):
    """A shard that this server gave back."""

    at_s: float
    wishes_version: int
    """The version of the wishes at that time."""
    token: int
    """The token under which this server had led it."""
    to: tuple[int, int]
    """The server that should lead it, and when that one registered."""
    rest_s: float
    """How long it is not moved to that server again if that one does not serve it."""


class _Damage(NamedTuple):
    """A shard that this server found damaged."""

    token: int
    """The token under which this server tried to open it."""
    at_s: float
    wishes_version: int


class ShardMembers:
    """The members of one server. Used from the event loop of its metadata store."""

    def __init__(
        self,
        presence: Presence,
        sharding: Sharding,
        *,
        of_store: str,
        move_delay_s: float,
        on_moved: OnMoved,
        free: FreeShard | None = None,
        settling_s: float = SETTLING_S,
        rest_s: float = REST_S,
    ) -> None:
        """Take part as the server of `presence`, from `open` on, in the shards of `of_store`.

        `free` is that of `Member`, for a shard.
        """
        self._on_moved = on_moved
        is_one = sharding.shards == 1
        self._settling_s = 0.0 if is_one else settling_s
        self._rest_s = rest_s
        self._damaged_s = 0.0 if is_one else rest_s
        self._presence = presence
        self._sharding = sharding
        self._move_delay_s = move_delay_s
        self._members = [
            Member(
                presence,
                of_store=of_store if is_one else f"{of_store}.{shard}",
                path=LEASE if is_one else f"{ROOT}/shards/{shard}/lease",
                may_claim=partial(self._may_claim, shard),
                free=None if free is None else partial(free, shard),
            )
            for shard in range(sharding.shards)
        ]
        self._named: Mapping[int, int] = {}
        """The instance that should lead each shard, as last computed."""
        self._wishes: Mapping[int, int] = {}
        self._wishes_version = 0
        self._opened_s = 0.0
        self._suspicions = Suspicions(rest_s)
        self._misplaced_from_s: dict[int, float] = {}
        """Since when another server is named for a shard that this one leads."""
        self._given_back: dict[int, _GivenBack] = {}
        self._damages: dict[int, _Damage] = {}
        self._registered_ms: Mapping[int, int] = {}
        """When each server registered, as last read."""
        self._sick: Collection[int] = ()
        """The shards that several servers could not open, as last read."""
        self._sharing: asyncio.Task[None] | None = None
        self._is_due = asyncio.Event()
        """Set when a shard has become free, for which no server may be named yet."""
        presence.watch.on_reached.append(self._is_due.set)

    async def open(self, lead: LeadShard, on_leader: OnShardLeader) -> None:
        """Take part. Raises as `Member.open` does."""
        await self._presence.enter()
        self._opened_s = self._presence.clock.now_s()
        for shard, member in enumerate(self._members):
            leading = partial(self._lead, shard, lead)
            await member.open(leading, partial(on_leader, shard))
        self._sharing = supervised("sharing the shards", self._share)

    async def close(self) -> None:
        """Give all shards back at once, and stop taking part."""
        if self._sharing is not None:
            self._sharing.cancel()
            await asyncio.gather(self._sharing, return_exceptions=True)
        await self._presence.retire()
        for member in self._members:
            if member.role is Role.LEADER and not member.is_stepping_down:
                self._on_moved(MoveCause.STOPPED)
        await asyncio.gather(*(member.close() for member in self._members))
        await self._presence.leave()

    def _lead(
        self, shard: int, lead: LeadShard, lease: Lease
    ) -> AbstractAsyncContextManager[object]:
        before = self._members[shard].expired
        own = self._presence.instance.id
        if before is not None and before.token == lease.token - 1 and before.holder != own:
            self._on_moved(MoveCause.RAN_OUT)
        return lead(shard, lease)

    # The state, and findings about it.

    async def state(self) -> ClusterState:
        """Return the state of the cluster. Raises `Unavailable`."""
        if self._sharding.shards == 1:
            return await self._members[0].state()
        instances = await instances_of(self._presence.store)
        leads = any(member.role is Role.LEADER for member in self._members)
        return ClusterState(
            id=self._presence.instance.id,
            role=Role.LEADER if leads else Role.STANDBY,
            leader=None,
            token=None,
            instances=instances,
            by=self._sharding.by,
            shards=[self._state_of(shard) for shard in range(self._sharding.shards)],
        )

    def findings(self) -> Sequence[Finding]:
        """Return findings about unreachable servers."""
        return self._presence.peers.findings()

    def count(self, standing: ShardStanding) -> int:
        """Return how many shards have this standing, as this server sees them."""
        shards = range(self._sharding.shards)
        return sum(self._state_of(shard).state is standing for shard in shards)

    def _state_of(self, shard: int) -> ShardState:
        member = self._members[shard]
        record = member.seen
        if record is None:
            standing = ShardStanding.FREE
        elif member.is_stepping_down:
            standing = ShardStanding.MOVING
        else:
            standing = ShardStanding.SERVING if record.is_serving else ShardStanding.TAKING_OVER
        leader, token = (None, None) if record is None else (record.holder, record.token)
        wish = self._wishes.get(shard)
        return ShardState(shard=shard, leader=leader, token=token, state=standing, wish=wish)

    async def wish(self, changes: Mapping[int, int | None]) -> Mapping[int, int]:
        """Pin shards to servers; None lets the balance choose again. Return all wishes.

        Raises `Unavailable`, `InvalidRequest` (invalid_wish).
        """
        registered = [each.id for each in await instances_of(self._presence.store)]
        for shard, instance in changes.items():
            assert 0 <= shard < self._sharding.shards
            if instance is not None and instance not in registered:
                raise InvalidRequest("invalid_wish", instance=instance, expected=registered)
        return await change_wishes(self._presence.store, changes)

    # Choosing leaders.

    def _may_claim(self, shard: int, free_s: float) -> bool:
        settled_s = self._presence.clock.now_s() - self._opened_s - self._settling_s
        if settled_s < 0:
            return False
        if self._is_damaged(shard):
            return False
        is_named = self._named.get(shard) == self._presence.instance.id
        if free_s == 0.0 and not is_named:
            self._is_due.set()
        if is_named and not self._members[shard].has_failed_last:
            return True
        return min(free_s, settled_s) >= self._presence.lease_s / 2

    def _is_damaged(self, shard: int) -> bool:
        """Whether this server found a shard damaged, and should not try again yet."""
        member, now_s = self._members[shard], self._presence.clock.now_s()
        if not isinstance(member.failure, StoreCorrupt | StoreFormatUnknown):
            self._damages.pop(shard, None)
            return False
        damage = self._damages.get(shard)
        if damage is None or damage.token != member.failed_token:
            damage = _Damage(member.failed_token, now_s, self._wishes_version)
            self._damages[shard] = damage
        is_wished = self._wishes.get(shard) == self._presence.instance.id
        is_tried_again = is_wished and damage.wishes_version != self._wishes_version
        return not is_tried_again and now_s - damage.at_s < self._damaged_s

    async def _share(self) -> None:
        while True:
            self._is_due.clear()
            await self._look()
            await unless(self._is_due, asyncio.sleep(self._presence.lease_s / RENEWALS))

    async def _look(self) -> None:
        own = self._presence.instance  # the entry may be older
        instances = [
            own if each.id == own.id else each for each in await instances_of(self._presence.store)
        ]
        self._wishes, self._wishes_version = await wishes_of(self._presence.store)
        seen = {
            shard: record
            for shard, member in enumerate(self._members)
            if (record := member.seen) is not None
        }
        self._presence.registration.report_unopened(
            [shard for shard, member in enumerate(self._members) if member.has_failed_last]
        )
        unopened = _unopened_by(instances, seen)
        self._sick = {shard for shard, servers in unopened.items() if len(servers) > 1}
        self._registered_ms = {instance.id: instance.since_ms for instance in instances}
        self._suspicions.look(
            self._presence.clock.now_s(),
            self._registered_ms,
            seen,
            {
                n: member.expired
                for n, member in enumerate(self._members)
                if member.expired is not None
            },
            self._sick,
        )
        holders = {shard: record.holder for shard, record in seen.items()}
        unreachable = unreachable_of(instances)
        reaching = [
            instance.id
            for instance in instances
            if instance.reaches_store_since_ms is not None and instance.id not in unreachable
        ]
        well = [each for each in reaching if each not in self._suspicions]
        live = {*well, *(each for each in reaching if each in holders.values())}
        healthy = [shard for shard in range(self._sharding.shards) if shard not in self._sick]
        named = balanced(healthy, live, holders, self._wishes)
        led = [*holders.values()]
        for shard, instance in named.items():
            if shard not in holders and instance in self._suspicions and well:
                named[shard] = min(well, key=led.count)
        for shard, servers in unopened.items():
            if shard in seen:
                continue
            wished = self._wishes.get(shard)
            untried = [each for each in well if each not in servers]
            if wished in well and (wished not in servers or not untried):
                named[shard] = wished
            elif untried:
                named[shard] = min(untried, key=led.count)
        self._named = named
        for shard, instance in self._named.items():
            if instance == self._presence.instance.id and shard not in seen:
                self._members[shard].look_now()
        self._give_back(seen)

    def _give_back(self, seen: Mapping[int, LeaseRecord]) -> None:
        """Step down from at most one shard that another server should lead."""
        now_s, own = self._presence.clock.now_s(), self._presence.instance.id
        unwanted = {
            shard: self._misplaced_from_s.get(shard, now_s)
            for shard, record in seen.items()
            if record.holder == own and self._named.get(shard, own) != own
        }
        self._misplaced_from_s = unwanted
        is_served = all(
            shard in self._sick or (shard in seen and seen[shard].is_serving)
            for shard in range(self._sharding.shards)
        )
        if not is_served or any(member.is_stepping_down for member in self._members):
            return
        for shard, from_s in sorted(unwanted.items()):
            if self._may_move(shard, now_s - from_s):
                before, to = self._given_back.get(shard), self._target(shard)
                again = before is not None and before.to == to
                rest_s = 2 * before.rest_s if before is not None and again else FIRST_S
                self._given_back[shard] = _GivenBack(
                    now_s,
                    self._wishes_version,
                    seen[shard].token,
                    to,
                    min(rest_s, self._rest_s),
                )
                self._on_moved(MoveCause.WISH if shard in self._wishes else MoveCause.BALANCE)
                self._members[shard].step_down()
                return

    def _may_move(self, shard: int, unwanted_s: float) -> bool:
        is_wished = shard in self._wishes
        is_delayed = not is_wished and not self._presence.peers.is_to_yield
        if is_delayed and unwanted_s < self._move_delay_s:
            return False
        before = self._given_back.get(shard)
        if before is None or self._members[shard].followed_token > before.token:
            return True
        if is_wished and before.wishes_version != self._wishes_version:
            return True
        if before.to != self._target(shard):
            return True
        return self._presence.clock.now_s() - before.at_s >= before.rest_s

    def _target(self, shard: int) -> tuple[int, int]:
        """Return the server that should lead a shard, and when it registered."""
        instance = self._named[shard]
        return instance, self._registered_ms[instance]


def _unopened_by(
    instances: Sequence[Instance], seen: Mapping[int, LeaseRecord]
) -> dict[int, Collection[int]]:
    """Return the unserved shards that servers could not open, each with these servers."""
    unopened: dict[int, list[int]] = {}
    for instance in instances:
        for shard in instance.unopened_shards:
            if shard not in seen or not seen[shard].is_serving:
                unopened.setdefault(shard, []).append(instance.id)
    return dict(sorted(unopened.items()))
