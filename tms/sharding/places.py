"""The places of a store's shards: in this process, at another server, or unknown.

1. `here` has the services of shards that this process leads. `as_caller` also has those of other
   servers, used in the caller's name for lists and sums over all shards; `as_server` has them in
   the name of this server, for its own topics.
2. Any use of a missing shard raises `NoLeader`, which names one shard if several are missing.

Used from the event loop's thread alone.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Never, Protocol, TypeVar, cast, overload

from tms.core.errors import InvalidRequest, NoLeader
from tms.core.runtime.held_lease import HeldLease
from tms.core.services.messaging import MessagingService
from tms.core.services.server_services import StoreServices

P = TypeVar("P")
S = TypeVar("S")


class ServedShard(StoreServices, Protocol):
    """The services of a shard that this process leads."""

    @property
    def messaging(self) -> MessagingService:
        """Topics and messages."""
        ...


class _Absent:
    """A shard without a known leader."""

    def __init__(self, **detail: int) -> None:
        self._detail = detail

    def __getattr__(self, name: str) -> Never:
        """Raise `NoLeader`."""
        raise NoLeader(**self._detail)


def held(place: P) -> P:
    """Return a place; if this process leads the shard, check that it holds the lease.

    A paused process has a shard open for some time after another one leads it. Requests for one
    shard are then refused elsewhere, but lists and sums are not, so they call this. Raises
    `NoLeader`.
    """
    lease: HeldLease | None = getattr(place, "lease", None)
    if lease is not None:
        lease.check()
    return place


def _is_held(place: object) -> bool:
    try:
        held(place)
    except NoLeader:
        return False
    return True


class ShardService:
    """The service of a shard, looked up at each use, because the shard may move."""

    def __init__(self, find: Callable[[], object]) -> None:
        self._find = find

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the service. Raises as `find` does."""
        return getattr(self._find(), name)


class Picked(Sequence[S], Generic[P, S]):
    """One service of each present place. Raises `NoLeader` for a missing one."""

    def __init__(self, places: Sequence[P], pick: Callable[[P], S]) -> None:
        self._places = places
        self._pick = pick

    def __len__(self) -> int:
        """Return the number of shards."""
        return len(self._places)

    @overload
    def __getitem__(self, shard: int) -> S: ...
    @overload
    def __getitem__(self, shard: slice) -> Sequence[S]: ...
    def __getitem__(self, shard: Any) -> Any:
        """Return the service of a shard."""
        return self._pick(self._places[shard])


Shard = TypeVar("Shard", bound=ServedShard)


class Places(Generic[Shard]):
    """The places of the shards of one store."""

    def __init__(self, shards: int) -> None:
        """Start without places."""
        absent = [_Absent(shard=shard) for shard in range(shards)] if shards > 1 else [_Absent()]
        self._absent = cast("list[ServedShard]", absent)
        self.led: dict[int, Shard] = {}
        """The shards that this process leads, by number."""
        self.here: list[ServedShard] = [*self._absent]
        self.as_caller: list[StoreServices] = [*self._absent]
        self.as_server: list[StoreServices] = [*self._absent]
        self._others: list[tuple[StoreServices, StoreServices]] = [
            (each, each) for each in self._absent
        ]
        """The services of other leaders, as caller and as server, also of shards still led here."""

    @property
    def only(self) -> ServedShard:
        """The only shard. Raises `InvalidRequest` (shard_required) if there are several."""
        if len(self.here) > 1:
            raise InvalidRequest("shard_required", shards=len(self.here))
        return self.here[0]

    @property
    def missing(self) -> Sequence[int]:
        """The shards without a known leader."""
        return [number for number, place in enumerate(self.as_caller) if not _is_held(place)]

    def lead(self, number: int, shard: Shard) -> None:
        """Record that this process leads a shard."""
        self.led[number] = self.here[number] = shard
        self.as_caller[number] = self.as_server[number] = shard

    def leave(self, number: int) -> None:
        """Record that this process no longer leads a shard."""
        del self.led[number]
        self.here[number] = self._absent[number]
        self.as_caller[number], self.as_server[number] = self._others[number]

    def set_remote(
        self, number: int, as_caller: StoreServices | None, as_server: StoreServices | None
    ) -> None:
        """Record the services of another leader of a shard; None if no leader is known.

        This has no effect while this process leads the shard.
        """
        absent = self._absent[number]
        self._others[number] = as_caller or absent, as_server or absent
        if number not in self.led:
            self.as_caller[number], self.as_server[number] = self._others[number]
