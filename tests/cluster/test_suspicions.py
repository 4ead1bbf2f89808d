"""A server that lets a lease run out is suspected, for longer each time, until it leads a shard."""

from tms.cluster.lease import LeaseRecord
from tms.cluster.suspicions import Suspicions

S_MAX = 200.0
HER, SHARD = 7, 3


def lease(token: int, *, is_serving: bool = False) -> LeaseRecord:
    return LeaseRecord(
        token=token,
        holder=HER,
        address="",
        store="s",
        lease_s=2.0,
        fence_s=0.0,
        is_serving=is_serving,
    )


class World:
    """The suspicions of one server, and the leases that it observes."""

    def __init__(self) -> None:
        self.suspicions = Suspicions(S_MAX)
        self.registered_ms = {HER: 1}
        self.expired: dict[int, LeaseRecord] = {}
        self.now_s = 0.0

    def look(self, seen: LeaseRecord | None = None) -> bool:
        held = {} if seen is None else {SHARD: seen}
        self.suspicions.look(self.now_s, self.registered_ms, held, self.expired)
        return HER in self.suspicions

    def suspected_s(self, token: int) -> float:
        """Return for how long the server is suspected once its lease has expired."""
        self.expired[SHARD] = lease(token)
        began_s = self.now_s
        assert self.look()
        while self.look():
            self.now_s += 1.0
        return self.now_s - began_s


def test_it_lasts_twice_as_long_each_time_and_not_for_ever() -> None:
    world = World()
    assert [world.suspected_s(token) for token in (1, 2, 3, 4)] == [60.0, 120.0, 200.0, 200.0]


def test_who_serves_a_shard_is_trusted_again() -> None:
    world = World()
    assert world.suspected_s(1) == 60.0
    world.expired[SHARD] = lease(2)
    assert world.look()
    assert world.look(lease(2, is_serving=True)), "that lease is over"
    assert world.look(lease(3)), "it may fail as the last one did"
    assert not world.look(lease(3, is_serving=True))
    assert world.suspected_s(3) == 60.0


def test_who_registers_again_is_trusted_again() -> None:
    world = World()
    world.expired[SHARD] = lease(1)
    assert world.look()
    world.registered_ms[HER] = 2
    assert not world.look()
    assert not world.look(), "the lease is an old one"


def test_who_is_gone_is_not_suspected() -> None:
    world = World()
    world.expired[SHARD] = lease(1)
    world.registered_ms.clear()
    assert not world.look()
