"""Records which servers let a lease expire, because they died or could not open the shard.

1. A server is suspected as soon as one of its leases expires. It gets no free shard.
2. It is trusted again if it registers again, or serves a shard under a lease that it has claimed
   since; and after a time, because it may be able to open shards again. That time is `FIRST_S`, in
   which the entry of a dead server ends with its session, and doubles each time until the server
   serves a shard, up to `s_max`.
3. If several servers could not open a shard, the shard is the cause, and none of them is suspected.

Pure: every server computes it from what it sees.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from tms.cluster.lease import LeaseRecord

FIRST_S = 60.0

_Turn = tuple[int, int]
"""A shard, with the token under which it is led."""


class _Suspicion(NamedTuple):
    since_ms: int
    """When the server registered."""
    until_s: float
    served: frozenset[_Turn]
    """The turns in which it served at that time."""
    shard: int
    """The shard whose lease expired."""


class Suspicions:
    """One server's suspicions of others and of itself."""

    def __init__(self, s_max: float) -> None:
        """Suspect nobody yet. Suspicions last at most `s_max` seconds."""
        self._first_s = min(FIRST_S, s_max)
        self._s_max = s_max
        self._suspicions: dict[int, _Suspicion] = {}
        self._next_s: dict[int, float] = {}
        """How long the next suspicion of a server lasts if it has served nothing since the last."""
        self._expired: dict[int, int] = {}
        """The latest token of each shard whose lease expired."""

    def __contains__(self, instance: int) -> bool:
        """Whether a server is suspected."""
        return instance in self._suspicions

    def look(
        self,
        now_s: float,
        registered_ms: Mapping[int, int],
        seen: Mapping[int, LeaseRecord],
        expired: Mapping[int, LeaseRecord],
        sick: Collection[int] = (),
    ) -> None:
        """Update the suspicions by the present state.

        `registered_ms` has the servers, each with the time when it registered; `seen` the leases
        that are held, by shard, and `expired` the latest expired lease of each shard. `sick` are
        shards that several servers could not open.
        """
        over = {(shard, record.token) for shard, record in expired.items()}
        served: dict[int, set[_Turn]] = {}
        for shard, record in seen.items():
            if record.is_serving and (shard, record.token) not in over:
                served.setdefault(record.holder, set()).add((shard, record.token))
        for instance, before in list(self._suspicions.items()):
            is_new = registered_ms.get(instance) != before.since_ms
            is_well = before.shard in sick or served.get(instance, set()) - before.served
            if is_new or is_well:
                del self._suspicions[instance]
                self._next_s.pop(instance, None)
            elif now_s >= before.until_s:
                del self._suspicions[instance]
        self._next_s = {each: s for each, s in self._next_s.items() if each in registered_ms}
        for shard, record in expired.items():
            if self._expired.get(shard) == record.token:
                continue
            self._expired[shard] = record.token
            instance = record.holder
            if shard in sick:
                continue
            if instance in registered_ms and instance not in self._suspicions:
                lasts_s = self._next_s.get(instance, self._first_s)
                self._next_s[instance] = min(2 * lasts_s, self._s_max)
                self._suspicions[instance] = _Suspicion(
                    registered_ms[instance],
                    now_s + lasts_s,
                    frozenset(served.get(instance, ())),
                    shard,
                )
