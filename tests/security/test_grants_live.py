"""Each server applies the rules and tokens that the metadata store has."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.manual_clock import ManualClock
from tests.scale import scaled
from tests.waiting import until
from tms.core.errors import GrantNotFound, NoMetadataStore, TooLarge
from tms.core.runtime.clock import Clock, SystemClock
from tms.metadata.local import LocalSession
from tms.metadata.memory import open_memory
from tms.security.grants import RULES, TOKENS, GrantOptions, Grants, with_id
from tms.security.resources import SERVER, Action, Kind, topic_resource
from tms.security.rule_book import RuleBook
from tms.security.rules import Effect, Identity, Rule
from tms.security.tokens import new_token

pytestmark = pytest.mark.anyio

NOW_MS = 1_700_000_000_000
ANN = Identity("ann", frozenset(("g",)))


def rule(who: str = "ann", action: Action = Action.PUBLISH, effect: str = "allow") -> Rule:
    kind = Kind.SERVER if action is Action.OPERATE else Kind.TOPIC
    namespace, name = ("", "") if kind is Kind.SERVER else ("ns", "t*")
    return Rule("", who, Effect(effect), frozenset((action,)), kind, namespace, name)


@asynccontextmanager
async def servers(
    name: str, count: int = 2, clock: Clock | None = None, **options: Any
) -> AsyncIterator[Sequence[tuple[Grants, LocalSession]]]:
    """The grants of this number of servers that have sessions with one store."""
    opened = []
    try:
        for _ in range(count):
            store = open_memory(name, clock)
            grants = Grants(GrantOptions(**options), clock or SystemClock())
            await grants.open(store)
            opened.append((grants, store))
        yield opened
    finally:
        for grants, store in opened:
            await grants.close()
            await store.close()


def may(grants: Grants, action: Action = Action.PUBLISH) -> bool:
    resource = SERVER if action is Action.OPERATE else topic_resource("ns", "tt")
    return grants.book.decide(ANN, action, resource).is_allowed


async def test_a_rule_is_in_force_here_at_once_and_elsewhere_soon() -> None:
    async with servers("grants") as ((here, _), (elsewhere, _)):
        told: list[int] = []
        elsewhere.on_change.append(lambda: told.append(elsewhere.epoch))
        added = await here.add_rule(rule())
        assert may(here)
        await until(lambda: may(elsewhere))
        assert told[-1] == elsewhere.epoch > 0
        assert await elsewhere.add_rule(rule()) == added, "again changes nothing"
        denied = await elsewhere.add_rule(rule("group:g", effect="deny"))
        await until(lambda: not may(here))
        await here.remove_rule(denied.id)
        await until(lambda: may(elsewhere))
        await elsewhere.remove_rule(added.id)
        assert not may(elsewhere)
        await until(lambda: not may(here))
        with pytest.raises(GrantNotFound):
            await here.remove_rule(added.id)


async def test_a_token_is_let_in_and_is_not_any_more() -> None:
    async with servers("tokens") as ((here, _), (elsewhere, _)):
        _, kept = new_token("ann", frozenset("g"), expires_ms=NOW_MS)
        await here.add_token(kept)
        assert here.token(kept.id) == kept
        await until(lambda: elsewhere.token(kept.id) == kept)
        await elsewhere.remove_token(kept.id)
        assert elsewhere.token(kept.id) is None
        await until(lambda: here.token(kept.id) is None)
        for unknown in (kept.id, "", "a/b", ".", "*"):
            with pytest.raises(GrantNotFound):
                await here.remove_token(unknown)


async def test_what_another_server_has_just_added_can_be_taken_away() -> None:
    async with servers("quick") as ((here, store), (elsewhere, _)):
        added = await here.add_rule(rule())
        await elsewhere.remove_rule(added.id)
        await store.put(f"{RULES}/broken", b"nonsense")
        await elsewhere.remove_rule("broken")
        assert await store.get_children(RULES) == []


async def test_what_cannot_be_read_leaves_what_was_before() -> None:
    async with servers("unreadable") as ((here, store), _):
        added = await here.add_rule(rule())
        _, kept = new_token("ann")
        await here.add_token(kept)
        epoch = here.epoch
        for path in (f"{RULES}/{added.id}", f"{TOKENS}/{kept.id}", f"{RULES}/other"):
            for wrong in (b"", b"{}", b"nonsense", b'{"id":"x","who":"","effect":"allow"}'):
                await store.put(path, wrong)
        without_meaning = msgspec.json.encode({**msgspec.to_builtins(added), "actions": ["read"]})
        await store.put(f"{RULES}/another", without_meaning)
        await here.add_rule(rule("tom"))
        assert may(here)
        assert here.token(kept.id) == kept
        assert len(here.rules) == 2
        assert here.epoch == epoch + 1
        await store.delete(f"{RULES}/{added.id}")
        await until(lambda: not may(here))


async def test_no_more_are_kept_than_may_be() -> None:
    async with servers("many", 1, rules_max=1, tokens_max=1) as ((here, _),):
        await here.add_rule(rule())
        await here.add_rule(rule())
        with pytest.raises(TooLarge):
            await here.add_rule(rule("tom"))
        await here.add_token(new_token("ann")[1])
        with pytest.raises(TooLarge):
            await here.add_token(new_token("ann")[1])


async def test_without_a_store_there_is_what_the_settings_say() -> None:
    _, kept = new_token("root")
    grants = Grants(GrantOptions(superusers=frozenset(("root",)), tokens=(kept,)), SystemClock())
    await grants.open(None)
    assert grants.token(kept.id) == kept
    assert grants.book.is_superuser(Identity("root"))
    with pytest.raises(NoMetadataStore):
        await grants.add_rule(rule())
    with pytest.raises(NoMetadataStore):
        await grants.add_token(new_token("ann")[1])
    await grants.close()


async def test_what_is_known_becomes_stale_and_is_not_when_it_is_read_again() -> None:
    clock = ManualClock(NOW_MS)
    async with servers("stale", 2, clock, stale_s_max=5) as ((here, store), (elsewhere, _)):
        added = await here.add_rule(rule())
        host: Any = store._host
        host.disconnect(store)
        clock.advance(4_999)
        assert not here.is_stale
        assert may(here), "it holds for a while"
        await elsewhere.remove_rule(added.id)
        clock.advance(1)
        assert here.is_stale
        assert not elsewhere.is_stale
        host.reconnect(store)
        await until(lambda: not here.is_stale)
        assert not may(here)


async def test_a_short_loss_makes_nothing_stale() -> None:
    clock = ManualClock(NOW_MS)
    async with servers("short", 1, clock, stale_s_max=5) as ((here, store),):
        host: Any = store._host
        for _ in range(3):
            host.disconnect(store)
            clock.advance(2_000)
            host.reconnect(store)
            await until(lambda: here._rules is not None and here._rules.lost_at_ms is None)
        clock.advance(5_000)
        assert not here.is_stale


RULE_OF = st.builds(
    rule,
    st.sampled_from(("ann", "group:g", "*", "tom")),
    st.sampled_from((Action.PUBLISH, Action.CONSUME, Action.OPERATE)),
    st.sampled_from(("allow", "deny")),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 1), RULE_OF),
        st.tuples(st.just("delete"), st.integers(0, 1), RULE_OF),
        st.tuples(st.just("break"), st.integers(0, 1), RULE_OF),
        st.tuples(st.sampled_from(("lose", "expire", "find")), st.integers(0, 1), st.none()),
    ),
    max_size=12,
)


class World:
    """Two servers, and what each must know: the last state that the store notified it of."""

    def __init__(self, opened: Sequence[tuple[Grants, LocalSession]], watching: Any) -> None:
        self.opened = opened
        self.store = watching
        self.values: dict[str, Rule | None] = {}
        """The stored rules; None for an unreadable one."""
        self.known: list[dict[str, Rule]] = [{}, {}]

    async def step(self, what: str, number: int, given: Rule | None) -> None:
        session = self.opened[number][1]
        host: Any = session._host
        if what == "lose":
            host.disconnect(session)
        elif what == "expire":
            await host.expire(session)
        elif what == "find" and not session.is_connected:
            host.reconnect(session)
        elif given is not None:
            await self._change(what, with_id(given))
        for at, (_, each) in enumerate(self.opened):
            if each.is_connected:
                self._hear(at)
        await until(self._is_known)

    async def _change(self, what: str, changed: Rule) -> None:
        path = f"{RULES}/{changed.id}"
        if what == "delete":
            if self.values.pop(changed.id, changed) is not changed:
                await self.store.delete(path)
            return
        self.values[changed.id] = changed if what == "put" else None
        told = msgspec.json.encode(changed) if what == "put" else b"nonsense"
        await self.store.put(path, told)

    def _hear(self, at: int) -> None:
        known = self.known[at]
        for name in set(known) - set(self.values):
            del known[name]
        known.update({name: value for name, value in self.values.items() if value is not None})

    def _is_known(self) -> bool:
        return all(
            {each.id: each for each in grants.rules} == self.known[at]
            for at, (grants, _) in enumerate(self.opened)
        )

    def check(self) -> None:
        """Check that each server decides like a rule book made from what it must know."""
        for at, (grants, _) in enumerate(self.opened):
            book = RuleBook(self.known[at].values())
            for identity in (ANN, Identity("tom"), Identity("anonymous")):
                for action in (Action.PUBLISH, Action.CONSUME, Action.DESCRIBE, Action.OPERATE):
                    resource = SERVER if action is Action.OPERATE else topic_resource("ns", "t")
                    expected = book.decide(identity, action, resource)
                    assert grants.book.decide(identity, action, resource) == expected


@given(STEPS)
@settings(max_examples=scaled(60))
def test_whatever_happens_each_decides_by_what_it_heard_last(
    steps: Sequence[tuple[str, int, Rule | None]],
) -> None:
    async def run() -> None:
        async with servers("world") as opened:
            watching = open_memory("world")
            world = World(opened, watching)
            for step in steps:
                await world.step(*step)
                world.check()
            await watching.close()

    asyncio.run(run())
