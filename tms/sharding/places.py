"""The places of a store's shards: in this process, at another server, or nowhere that is known.

1. `here` has the services of shards that this process leads. `asked` has those of other servers
   too, for lists and sums over all shards, in the name of the caller; `reached` has them in the
   name of this server, for its own topics.
2. A shard that is not there raises `NoLeader`, which names it, whatever is wanted of it.

Used from the event loop's thread alone.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Never, Protocol, TypeVar, cast, overload

from tms.core.cluster import HeldLease
from tms.core.errors import NoLeader
from tms.core.groups import Groups
from tms.core.messaging import MessagingService
from tms.core.ranges import Ranges
from tms.core.services import Services
from tms.core.subscriptions import Subscriptions
from tms.core.transactions import AsyncTransactions

P = TypeVar("P")
S = TypeVar("S")


class ServedMessaging(MessagingService, Protocol):
    """Messaging that a server stops before it closes it."""

    def stop_waiting(self) -> None:
        """Let polls that wait for messages answer now, and from now on at once."""
        ...


class ServedShard(Protocol):
    """The services of a shard that this process leads."""

    @property
    def messaging(self) -> ServedMessaging:
        """Topics and messages."""
        ...

    @property
    def transactions(self) -> AsyncTransactions:
        """Transactions."""
        ...

    @property
    def subscriptions(self) -> Subscriptions:
        """Positions of consumers."""
        ...

    @property
    def groups(self) -> Groups:
        """Groups of consumers."""
        ...

    @property
    def ranges(self) -> Ranges:
        """The readable ranges of topics."""
        ...


class _Absent:
    """A shard that nobody is known to lead."""

    def __init__(self, shard: int) -> None:
        self._shard = shard

    def __getattr__(self, name: str) -> Never:
        """Raise `NoLeader`."""
        raise NoLeader(shard=self._shard)


def held(place: P) -> P:
    """Return a place; if it is a shard that this process leads, its lease must be held now.

    A process that was paused has a shard open for some time after another leads it. Whatever is for
    one shard is not answered here then. Lists and sums are, so they ask. Raises `NoLeader`.
    """
    lease: HeldLease | None = getattr(place, "lease", None)
    if lease is not None:
        lease.check()
    return place


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
        self._absent = [_Absent(shard) for shard in range(shards)]
        self.led: dict[int, Shard] = {}
        """The shards that this process leads, by number."""
        self.here = cast("list[ServedShard]", [*self._absent])
        self.asked = cast("list[ServedShard | Services]", [*self._absent])
        self.reached = cast("list[ServedShard | Services]", [*self._absent])

    def lead(self, number: int, shard: Shard) -> None:
        """Take note that this process leads a shard."""
        self.led[number] = self.here[number] = shard
        self.asked[number] = self.reached[number] = shard

    def leave(self, number: int) -> None:
        """Take note that this process does not lead a shard any more."""
        del self.led[number]
        self.here[number] = cast("ServedShard", self._absent[number])
        self.ask(number, None, None)

    def ask(self, number: int, as_caller: Services | None, as_server: Services | None) -> None:
        """Take note by what another leader of a shard is asked; None: nobody is known to lead it.

        Has no effect while this process leads it.
        """
        if number not in self.led:
            absent = cast("ServedShard", self._absent[number])
            self.asked[number] = as_caller or absent
            self.reached[number] = as_server or absent
