"""Rules and tokens of one metadata store, as several servers apply them."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.manual_clock import ManualClock
from tests.metadata.servers import remote
from tests.scale import scaled
from tests.security.drawn_rules import rules
from tests.servers.proxy import Proxy
from tests.waiting import turns, until
from tms.core.errors import GrantNotFound, MetadataUnavailable, NoMetadataStore, TooLarge
from tms.core.runtime.clock import SystemClock
from tms.metadata.host import MetadataHost
from tms.metadata.local import LocalSession
from tms.security.grants import RULES, TOKENS, GrantOptions, Grants, with_id
from tms.security.resources import SERVER, Action, Kind
from tms.security.rule_book import RuleBook
from tms.security.rules import Effect, Identity, Rule
from tms.security.tokens import new_token
from tms.server.stores import open_metadata

__all__ = ["remote"]

pytestmark = pytest.mark.anyio

ANN = Identity("ann")
OPERATE = Rule("", "ann", Effect.ALLOW, frozenset([Action.OPERATE]), Kind.SERVER)


@pytest.fixture
def host() -> MetadataHost:
    return MetadataHost()


async def opened(host: MetadataHost, **options: object) -> Grants:
    grants = Grants(GrantOptions(**options), SystemClock())  # type: ignore[arg-type]
    await grants.open(host.open_session())
    return grants


@pytest.fixture
async def here(host: MetadataHost) -> AsyncIterator[Grants]:
    grants = await opened(host)
    yield grants
    await grants.close()


@pytest.fixture
async def there(host: MetadataHost) -> AsyncIterator[Grants]:
    grants = await opened(host)
    yield grants
    await grants.close()


def may(grants: Grants) -> bool:
    return grants.book.decide(ANN, Action.OPERATE, SERVER).is_allowed


async def test_a_rule_is_in_force_here_at_once_and_elsewhere_soon(
    here: Grants, there: Grants
) -> None:
    rule = await here.add_rule(OPERATE)
    assert may(here)
    await until(lambda: may(there))
    await there.remove_rule(rule.id)
    assert not may(there)
    await until(lambda: not may(here))
    with pytest.raises(GrantNotFound):
        await here.remove_rule(rule.id)


async def test_the_same_rule_is_added_once(here: Grants) -> None:
    first = await here.add_rule(OPERATE)
    assert await here.add_rule(OPERATE) == first == with_id(OPERATE)
    assert list(here.rules) == [first]


async def test_tokens_come_and_go_and_are_reported(here: Grants, there: Grants) -> None:
    told: list[int] = []
    there.on_change.append(lambda: told.append(there.epoch))
    _, kept = new_token("ann")
    await here.add_token(kept)
    assert here.token(kept.id) == kept
    await until(lambda: there.token(kept.id) == kept)
    await here.remove_token(kept.id)
    await until(lambda: there.token(kept.id) is None)
    assert len(told) >= 2
    assert told == sorted(set(told))


async def test_what_begins_later_has_what_is_there(host: MetadataHost, here: Grants) -> None:
    await here.add_rule(OPERATE)
    later = await opened(host)
    assert may(later)
    await later.close()


async def test_there_are_so_many_at_most(host: MetadataHost) -> None:
    grants = await opened(host, rules_max=1, tokens_max=1)
    await grants.add_rule(OPERATE)
    await grants.add_rule(OPERATE)
    with pytest.raises(TooLarge, match="limit of rules"):
        await grants.add_rule(_of("bob"))
    await grants.add_token(new_token("ann")[1])
    with pytest.raises(TooLarge, match="limit of tokens"):
        await grants.add_token(new_token("ann")[1])
    await grants.close()


def _of(who: str) -> Rule:
    return Rule("", who, OPERATE.effect, OPERATE.actions, OPERATE.kind)


async def test_what_cannot_be_read_changes_nothing(host: MetadataHost, here: Grants) -> None:
    rule = await here.add_rule(OPERATE)
    by_hand = host.open_session()
    await by_hand.put(f"{RULES}/{rule.id}", b"{}")
    await by_hand.put(f"{RULES}/another", b'{"id": 5}')
    await by_hand.put(f"{TOKENS}/x", b"\xff")
    await turns()
    _, kept = new_token("ann")
    await here.add_token(kept)
    assert may(here)
    assert list(here.rules) == [rule]
    await by_hand.delete(f"{RULES}/{rule.id}")
    await until(lambda: not may(here))


async def test_without_a_store_there_is_what_settings_say() -> None:
    _, kept = new_token("root")
    options = GrantOptions(superusers=frozenset(["root"]), tokens=(kept,))
    grants = Grants(options, SystemClock())
    await grants.open(None)
    assert grants.token(kept.id) == kept
    assert grants.book.decide(Identity("root"), Action.GRANT, SERVER).is_allowed
    with pytest.raises(NoMetadataStore):
        await grants.add_rule(OPERATE)
    assert not grants.is_stale


async def test_what_is_known_gets_too_old() -> None:
    clock = ManualClock(0)
    host = MetadataHost(clock=clock)
    session = host.open_session()
    grants = Grants(GrantOptions(stale_s_max=5), clock)
    await grants.open(session)
    await grants.add_rule(OPERATE)
    host.disconnect(session)
    clock.advance(4_999)
    assert not grants.is_stale
    clock.advance(1)
    assert grants.is_stale
    host.reconnect(session)
    await until(lambda: not grants.is_stale)
    assert may(grants)
    await grants.close()


async def test_silence_counts_from_the_last_sign_of_the_store(
    host: MetadataHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, silent_ms = ManualClock(0), 0
    monkeypatch.setattr(LocalSession, "silent_ms", property(lambda _: silent_ms))
    grants = Grants(GrantOptions(stale_s_max=5), clock)
    session = host.open_session()
    await grants.open(session)
    clock.advance(100_000)
    assert not grants.is_stale
    silent_ms = 4_999
    assert not grants.is_stale
    clock.advance(5_000)
    silent_ms = 5_000  # nothing has detected yet that the connection is dead
    assert session.is_connected
    assert grants.is_stale
    silent_ms = 8_000
    host.disconnect(session)
    assert grants._rules is not None
    assert grants._rules.lost_at_ms == clock.steady_ms() - 8_000
    host.reconnect(session)
    silent_ms = 0
    await until(lambda: not grants.is_stale)
    await grants.close()


async def test_what_was_reported_and_cannot_be_read_gets_too_old(
    host: MetadataHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, session = ManualClock(0), host.open_session()
    grants = Grants(GrantOptions(stale_s_max=5), clock)
    await grants.open(session)
    other = await opened(host)
    added = await other.add_rule(OPERATE)
    await until(lambda: may(grants))
    read = session.get

    async def fails(path: str) -> None:
        raise MetadataUnavailable(reason=path)

    monkeypatch.setattr(session, "get", fails)
    await other.remove_rule(added.id)
    clock.advance(4_999)
    assert not grants.is_stale
    clock.advance(1)
    assert grants.is_stale, "a change is known of, and not what it is"
    monkeypatch.setattr(session, "get", read)
    await until(lambda: not grants.is_stale)
    assert not may(grants)
    await grants.close()
    await other.close()


@pytest.mark.slow
async def test_a_store_that_falls_silent_is_known_of_in_time(remote: str) -> None:
    kind, _, place = remote.partition("://")
    address, _, path = place.partition("/")
    with Proxy(int(address.partition(",")[0].rpartition(":")[2])) as proxy:
        store = await open_metadata(f"{kind}://{proxy.address}/{path}?session_timeout_s=30")
        clock = SystemClock()
        grants = Grants(GrantOptions(stale_s_max=3), clock)
        await grants.open(store)
        try:
            opened_ms = clock.steady_ms()
            # The server is idle, but the store shows signs of life.
            await until(lambda: clock.steady_ms() - store.silent_ms > opened_ms + 2_000)
            assert not grants.is_stale
            proxy.hold()
            await until(lambda: grants.is_stale)
            assert store.is_connected, "as far as is known: its session is ten times as long"
            proxy.release()
            await until(lambda: not grants.is_stale)
        finally:
            await grants.close()
            await store.close()


@settings(max_examples=scaled(30), suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.booleans(), rules()), max_size=15), st.data())
def test_what_is_in_force_is_what_the_store_has(
    steps: list[tuple[bool, Rule]], data: st.DataObject
) -> None:
    async def run() -> None:
        host = MetadataHost()
        here, there = await opened(host), await opened(host)
        kept: dict[str, Rule] = {}
        for is_new, rule in steps:
            if is_new or not kept:
                added = await here.add_rule(rule)
                kept[added.id] = added
            else:
                gone = data.draw(st.sampled_from(sorted(kept)))
                await here.remove_rule(gone)
                del kept[gone]
        assert {rule.id: rule for rule in here.rules} == kept
        book = RuleBook(kept.values())
        await until(lambda: {rule.id for rule in there.rules} == set(kept))
        for who in (ANN, Identity("bob", frozenset("gh"))):
            for action in (Action.OPERATE, Action.GRANT, Action.TRANSACT):
                wanted = book.decide(who, action, SERVER)
                assert here.book.decide(who, action, SERVER) == wanted
                assert there.book.decide(who, action, SERVER) == wanted
        await here.close()
        await there.close()

    asyncio.run(run())
