"""The places of a store's shards: in this process, at another server, or nowhere that is known.

1. `here` has the services of shards that this process leads. `asked` has those of other servers
   too, for lists and sums over all shards, in the name of the caller; `reached` has them in the
   name of this server, for its own topics.
2. Whatever is wanted of a shard that is not there raises `NoLeader`, which names one of several.

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
    """A shard that nobody is known to lead."""

    def __init__(self, **detail: int) -> None:
        self._detail = detail

    def __getattr__(self, name: str) -> Never:
        """Raise `NoLeader`."""
        raise NoLeader(**self._detail)


def held(place: P) -> P:
    """Return a place; if it is a shard that this process leads, its lease must be held now.

    A process that was paused has a shard open for some time after another leads it. Whatever is for
    one shard is not answered here then. Lists and sums are, so they ask. Raises `NoLeader`.
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
    """The service of a shard, found again at each use, because the shard may move."""

    def __init__(self, find: Callable[[], object]) -> None:
        self._find = find

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the service. Raises as `find`."""
        return getattr(self._find(), name)


class Picked(Sequence[S], Generic[P, S]):
    """One service of each place, as the places are now. Raises `NoLeader` for one that is away."""

    def __init__(self, places: Sequence[P], pick: Callable[[P], S]) -> None:
        self._places = places
        self._pick = pick

    def __len__(self) -> int:
        """Return how many shards there are."""
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
        """Know of none yet."""
        absent = [_Absent(shard=shard) for shard in range(shards)] if shards > 1 else [_Absent()]
        self._absent = cast("list[ServedShard]", absent)
        self.led: dict[int, Shard] = {}
        """The shards that this process leads, by number."""
        self.here: list[ServedShard] = [*self._absent]
        self.asked: list[StoreServices] = [*self._absent]
        self.reached: list[StoreServices] = [*self._absent]
        self._others: list[tuple[StoreServices, StoreServices]] = [
            (each, each) for each in self._absent
        ]
        """By what other leaders are asked and reached, also of shards that are still led here."""

    @property
    def only(self) -> ServedShard:
        """The only shard. Raises `InvalidRequest` (shard_required) if there are several."""
        if len(self.here) > 1:
            raise InvalidRequest("shard_required", shards=len(self.here))
        return self.here[0]

    @property
    def missing(self) -> Sequence[int]:
        """The shards that no server is known to lead now."""
        return [number for number, place in enumerate(self.asked) if not _is_held(place)]

    def lead(self, number: int, shard: Shard) -> None:
        """Take note that this process leads a shard."""
        self.led[number] = self.here[number] = shard
        self.asked[number] = self.reached[number] = shard

    def leave(self, number: int) -> None:
        """Take note that this process does not lead a shard any more."""
        del self.led[number]
        self.here[number] = self._absent[number]
        self.asked[number], self.reached[number] = self._others[number]

    def ask(
        self, number: int, as_caller: StoreServices | None, as_server: StoreServices | None
    ) -> None:
        """Take note by what another leader of a shard is asked; None: nobody is known to lead it.

        While this process leads it, that has no effect yet.
        """
        absent = self._absent[number]
        self._others[number] = as_caller or absent, as_server or absent
        if number not in self.led:
            self.asked[number], self.reached[number] = self._others[number]
