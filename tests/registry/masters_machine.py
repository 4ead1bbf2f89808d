"""Random histories of three registries, one of them the master, compared with the same plain model.

A new master continues after the end of the log. The former master is not notified: it still counts
itself as the master, and must find out from the log before it has written anything.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.registry.expected import Expected
from tests.registry.registries import Called
from tests.registry.registry_machine import WHICH, Histories
from tests.waiting import until
from tms.registry.log.mastership import Elected, Mastership
from tms.registry.log.schema_log import SchemaLog
from tms.registry.log.service import NotMaster

ADDRESS = "http://master:1"
NOT_MASTER = "not master"


class Hand:
    """An election in which the history says who is elected."""

    def __init__(self) -> None:
        self.tell: Callable[[Elected], None] = lambda _: None

    def start(self, tell: Callable[[Elected], None]) -> None:
        self.tell = tell

    def give_way(self) -> None:
        pass

    async def close(self) -> None:
        pass


class MasterHistories(Histories):
    registries_count = 3

    def __init__(self) -> None:
        self.master: Called | None = None
        self.masterships: dict[Called, tuple[Mastership, Hand]] = {}
        super().__init__()

    def start(self) -> Called:
        messaging: Any = self.lossy
        hand = Hand()
        made: list[Mastership] = []

        def mastership(log: SchemaLog) -> Mastership:
            made.append(Mastership(log, hand, ADDRESS, is_eligible=True))
            return made[0]

        called = self.made.make(messaging=messaging, mastership=mastership)
        self.masterships[called] = made[0], hand

        async def stand() -> None:
            made[0].take_part(called.registry)

        self.run(stand())
        return called

    def teardown(self) -> None:
        for mastership, _ in self.masterships.values():
            self.run(mastership.close())
        super().teardown()

    @rule(which=WHICH, loss=st.sampled_from([None, None, "lost", "not sent"]))
    def elect(self, which: int, loss: str | None) -> None:
        called = self.called[which % len(self.called)]
        mastership, hand = self.masterships[called]
        begun = mastership.begun

        async def begin() -> None:
            hand.tell(Elected(None))
            hand.tell(Elected(ADDRESS, is_self=True))
            await until(lambda: mastership.begun != begun)

        self.lossy.loss = loss
        self.run(begin())
        self.lossy.loss = None
        self.master = called
        assert mastership.is_master

    def write(
        self,
        which: int,
        loss: str | None,
        act: Callable[[Expected], Any],
        ask: Callable[[Called], Awaitable[Any]],
    ) -> None:
        async def asked(called: Called) -> Any:
            try:
                return await ask(called)
            except NotMaster:
                return NOT_MASTER

        called = self.called[which % len(self.called)]
        if called is self.master:
            super().write(which, loss, act, asked)
        else:
            assert self.run(asked(called)) == NOT_MASTER
