"""The settings of namespaces as several servers on one metadata store see them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.metadata.rows import FailingRows
from tests.virtual_loop import VIRTUAL
from tests.waiting import passes, until
from tms.core.errors import (
    InvalidRequest,
    MetadataUnavailable,
    NamespaceNotDeclared,
    NoMetadataStore,
    OutcomeUnknown,
    TooLarge,
    ValueUnreadable,
)
from tms.core.limits import TTL_S_DEFAULT, TTL_S_MAX, Limits
from tms.core.values.namespaces import NamespaceRules, NamespaceSettings, rules_of
from tms.metadata.host import MetadataHost, open_host
from tms.metadata.journal import MetadataJournal
from tms.metadata.local import LocalSession
from tms.namespaces.store import (
    NamespaceStore,
    SettingsCodec,
    UndeclaredNamespaces,
)

pytestmark = pytest.mark.anyio

LIMITS = Limits()
SMALL = NamespaceSettings(message_bytes_max=5)
LARGE = NamespaceSettings(message_bytes_max=50, publish_bytes_per_s=7)


@pytest.fixture
def anyio_backend() -> object:
    return VIRTUAL


@pytest.fixture
async def host(anyio_backend: object) -> MetadataHost:
    return MetadataHost()


@pytest.fixture
async def session(host: MetadataHost) -> LocalSession:
    return host.open_session()


async def opened(session: LocalSession, limits: Limits = LIMITS) -> NamespaceStore:
    namespaces = NamespaceStore(session, limits)
    await namespaces.open()
    return namespaces


@pytest.fixture
async def here(session: LocalSession) -> AsyncIterator[NamespaceStore]:
    namespaces = await opened(session)
    yield namespaces
    await namespaces.close()


@pytest.fixture
async def there(host: MetadataHost) -> AsyncIterator[NamespaceStore]:
    namespaces = await opened(host.open_session())
    yield namespaces
    await namespaces.close()


async def test_one_that_was_never_declared_works_by_the_servers_limits(
    here: NamespaceStore,
) -> None:
    found = await here.namespace("shop")

    assert (found.name, found.version, found.settings) == ("shop", None, NamespaceSettings())
    assert found.rules == NamespaceRules(
        ttl_s_default=TTL_S_DEFAULT,
        ttl_s_max=TTL_S_MAX,
        message_bytes_max=LIMITS.message_bytes_max,
        request_bytes_max=LIMITS.request_bytes_max,
    )
    assert await here.namespaces() == []
    assert here.rules == {}


async def test_what_is_declared_holds_at_once_and_counts_its_versions(
    here: NamespaceStore,
) -> None:
    first = await here.declare("shop", SMALL)
    assert (first.version, first.rules.message_bytes_max) == (0, 5)
    assert here.rules == {"shop": rules_of(SMALL, LIMITS)}

    second = await here.declare("shop", LARGE)
    assert (second.version, second.settings) == (1, LARGE)
    assert here.rules["shop"].publish_bytes_per_s == 7
    await here.declare("bank", SMALL)
    assert [found.name for found in await here.namespaces()] == ["bank", "shop"]

    await here.delete("shop")
    assert set(here.rules) == {"bank"}
    assert (await here.namespace("shop")).version is None
    with pytest.raises(NamespaceNotDeclared):
        await here.delete("shop")


async def test_another_server_hears_of_each_change(
    here: NamespaceStore, there: NamespaceStore
) -> None:
    await here.declare("shop", SMALL)
    await until(lambda: there.rules.get("shop") == rules_of(SMALL, LIMITS))

    await here.declare("shop", LARGE)
    await until(lambda: there.rules.get("shop") == rules_of(LARGE, LIMITS))
    assert (await there.namespace("shop")).version == 1

    await here.delete("shop")
    await until(lambda: there.rules == {})


async def test_one_that_opens_later_knows_what_was_declared_before(
    here: NamespaceStore, host: MetadataHost
) -> None:
    for number in range(250):
        await here.declare(f"n{number}", SMALL)

    late = await opened(host.open_session())

    assert late.rules == here.rules
    assert len(late.rules) == 250
    await late.close()


async def test_rules_stay_the_same_object_until_they_change(
    here: NamespaceStore, there: NamespaceStore
) -> None:
    await here.declare("shop", SMALL)
    rules = here.rules["shop"]

    await there.declare("shop", SMALL)
    await there.declare("other", LARGE)
    await until(lambda: "other" in here.rules)

    assert here.rules["shop"] is rules


async def test_while_the_store_is_not_reached_what_was_known_holds(
    here: NamespaceStore, there: NamespaceStore, host: MetadataHost, session: LocalSession
) -> None:
    await here.declare("shop", SMALL)
    await here.declare("gone", SMALL)
    host.disconnect(session)
    await there.declare("shop", LARGE)
    await there.delete("gone")
    with pytest.raises(MetadataUnavailable):
        await here.declare("shop", SMALL)
    assert set(here.rules) == {"shop", "gone"}

    host.reconnect(session)

    await until(lambda: here.rules == {"shop": rules_of(LARGE, LIMITS)})


async def test_a_connection_lost_while_a_change_is_read_is_waited_for(
    here: NamespaceStore,
    there: NamespaceStore,
    host: MetadataHost,
    session: LocalSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tms.metadata.following.RETRY_S", 0.01)
    await there.declare("shop", SMALL)
    host.disconnect(session)
    await passes(0.05)

    host.reconnect(session)

    await until(lambda: "shop" in here.rules)


async def test_settings_that_cannot_be_understood_change_nothing(
    here: NamespaceStore, host: MetadataHost, caplog: pytest.LogCaptureFixture
) -> None:
    await here.declare("shop", SMALL)
    writer = host.open_session()

    for wrong in (b"{", b"[]", b'{"message_bytes_max": "5"}', b'{"message_bytes_max": -5}'):
        caplog.clear()
        await writer.put("/namespaces/shop", wrong)
        await until(lambda: "keeps its last valid value" in caplog.text)
        assert here.rules == {"shop": rules_of(SMALL, LIMITS)}
        with pytest.raises(ValueUnreadable):
            await here.namespace("shop")

    await here.declare("shop", LARGE)
    assert (await here.namespace("shop")).settings == LARGE


async def test_values_that_are_not_namespaces_are_passed_over(
    here: NamespaceStore, host: MetadataHost
) -> None:
    writer = host.open_session()
    for path in ("/namespaces", "/namespaces/a-b", "/namespaces/shop/below"):
        await writer.put(path, b"{}")
    await writer.put("/namespaces/shop", SettingsCodec().encode(SMALL))

    await until(lambda: bool(here.rules))
    late = await opened(host.open_session())

    assert set(here.rules) == set(late.rules) == {"shop"}
    assert [found.name for found in await here.namespaces()] == ["shop"]
    await late.close()


async def test_settings_of_a_newer_version_are_passed_over(here: NamespaceStore) -> None:
    decoded = SettingsCodec().decode(b'{"message_bytes_max": 5, "from_the_future": [1]}')

    assert decoded == SMALL


async def test_a_name_is_checked(here: NamespaceStore) -> None:
    for refused in (here.namespace("a-b"), here.declare("a/b", SMALL), here.delete("")):
        with pytest.raises(InvalidRequest) as error:
            await refused
        assert error.value.problem.code == "invalid_namespace_name"


async def test_without_a_metadata_store_nothing_can_be_declared() -> None:
    namespaces = UndeclaredNamespaces(LIMITS)

    assert (await namespaces.namespace("shop")).rules.ttl_s_max == TTL_S_MAX
    assert await namespaces.namespaces() == []
    with pytest.raises(NoMetadataStore):
        await namespaces.declare("shop", SMALL)
    with pytest.raises(NoMetadataStore):
        await namespaces.delete("shop")
    with pytest.raises(InvalidRequest):
        await namespaces.namespace("a-b")
    await namespaces.close()


async def test_not_more_have_settings_than_may(session: LocalSession) -> None:
    here = await opened(session, Limits(namespaces_max=2))
    for name in ("a", "b"):
        await here.declare(name, SMALL)

    refused = await asyncio.gather(
        *(here.declare(name, SMALL) for name in ("c", "d")), return_exceptions=True
    )
    assert [error.problem.code for error in refused if isinstance(error, TooLarge)] == [
        "namespace_limit_reached"
    ] * 2
    assert sorted(here.rules) == ["a", "b"]
    await here.declare("b", LARGE)
    await here.delete("a")
    at_once = await asyncio.gather(
        *(here.declare(name, SMALL) for name in ("c", "d")), return_exceptions=True
    )
    assert sum(isinstance(each, TooLarge) for each in at_once) == 1
    assert len(await here.namespaces()) == 2
    await here.close()


@pytest.mark.parametrize("how", ["before", "after"])
async def test_a_change_whose_answer_is_lost_is_of_unknown_outcome(how: str) -> None:
    rows = FailingRows()
    namespaces = await opened((await open_host(MetadataJournal(rows))).open_session())
    rows.fail_next = how
    with pytest.raises(OutcomeUnknown):
        await namespaces.declare("shop", SMALL)
    await namespaces.declare("shop", LARGE)
    rows.fail_next = how
    with pytest.raises(OutcomeUnknown):
        await namespaces.delete("shop")
    await namespaces.close()
