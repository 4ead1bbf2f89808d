"""Registries whose elections a test decides by hand."""

from collections.abc import Callable

from tests.registry.registries import Called, Registries
from tests.waiting import until
from tms.registry.log.mastership import Elected, Election, Mastership
from tms.registry.log.schema_log import SchemaLog
from tms.registry.state.ids import StoreIds


class ByHand:
    """An election in which the test says who is elected."""

    def __init__(self) -> None:
        self.tell: Callable[[Elected], None] = lambda _: None
        self.given_way = 0

    def start(self, tell: Callable[[Elected], None]) -> None:
        self.tell = tell

    def give_way(self) -> None:
        self.given_way += 1

    async def close(self) -> None:
        pass


class Server:
    """One of several registries, with an election by hand or a given one."""

    def __init__(
        self,
        registries: Registries,
        name: str,
        *,
        is_eligible: bool = True,
        election: Election | None = None,
        ids: StoreIds | None = None,
    ) -> None:
        self.name = f"http://{name}:1"
        self.hand = ByHand()

        def mastership(log: SchemaLog) -> Mastership:
            how = election or self.hand
            self.mastership = Mastership(log, how, self.name, is_eligible=is_eligible)
            return self.mastership

        self.called: Called = registries.make(mastership=mastership, ids=ids)

    def take_part(self) -> None:
        self.mastership.take_part(self.called.registry)

    async def become(self) -> None:
        """Be elected, and begin."""
        self.hand.tell(Elected(self.name, is_self=True))
        await until(lambda: self.mastership.is_master)
