"""The contract of every MetadataStore (`tms/metadata/interface.py`). A subclass gives `sessions`.

`sessions` makes any number of sessions with one store that is empty at the start.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.contracts.metadata_notifications_contract import (
    NotificationsContract,
    Sessions,
)
from tests.waiting import until
from tms.coordination import CoordinationService
from tms.core.errors import (
    BadVersion,
    InvalidRequest,
    LockBusy,
    MetadataClosed,
    PathHasChildren,
    PathNotFound,
    TooLarge,
)
from tms.metadata.interface import (
    NEW,
    VALUE_BYTES_MAX,
    Change,
    MetadataStore,
    Notification,
    Value,
)

__all__ = ["MetadataStoreContract", "Sessions", "until"]

WRONG_PATHS = ("", " ", "a", "a/b", "/a/", "//", "/a//b", "/a/./b", "/a/../b", "/a\0", "/\ud800")


def version_of(found: Value | None) -> int:
    assert found is not None
    return found.stat.version


class MetadataStoreContract(NotificationsContract):
    @pytest.fixture
    def sessions(self) -> Sessions:
        raise AssertionError("a subclass gives the sessions")

    @pytest.fixture
    async def store(self, sessions: Sessions) -> MetadataStore:
        return await sessions()

    async def test_an_empty_store_has_nothing(self, store: MetadataStore) -> None:
        assert not await store.exists("/absent")
        assert await store.get("/absent") is None
        assert await store.get_children("/absent") == []
        assert await store.get_children("/") == []
        with pytest.raises(PathNotFound):
            await store.delete("/absent")
        with pytest.raises(PathNotFound):
            await store.delete("/absent", 0)
        await store.delete_recursive("/absent")

    async def test_a_put_needs_the_version_it_expects(self, store: MetadataStore) -> None:
        for wrong in (0, 1):
            with pytest.raises(BadVersion):
                await store.put("/k", b"0", wrong)
        assert (await store.put("/k", b"0", NEW)).version == 0
        for wrong in (NEW, 1):
            with pytest.raises(BadVersion):
                await store.put("/k", b"x", wrong)
        stat = await store.put("/k", b"1", 0)
        assert stat.version == 1
        assert await store.get("/k") == Value(b"1", stat)
        assert (await store.put("/k", b"2")).version == 2

    async def test_a_stat_describes_the_value(self, store: MetadataStore) -> None:
        first = await store.put("/k", b"0")
        second = await store.put("/k", b"1")

        assert first.path == second.path == "/k"
        assert first.created_revision == first.modified_revision == second.created_revision
        assert second.modified_revision > first.modified_revision
        assert first.created_ms == second.created_ms <= second.modified_ms
        assert not second.is_ephemeral
        assert not second.created_by_self

    async def test_revisions_grow_though_values_go(self, store: MetadataStore) -> None:
        revisions = []
        for _ in range(5):
            revisions.append((await store.put("/k", b"", NEW)).created_revision)
            await store.delete("/k")

        assert revisions == sorted(set(revisions))

    async def test_an_empty_value_is_a_value(self, store: MetadataStore) -> None:
        await store.put("/k", b"")

        assert await store.exists("/k")
        found = await store.get("/k")
        assert found is not None
        assert found.value == b""

    async def test_children_are_names_sorted_and_no_grandchildren(
        self, store: MetadataStore
    ) -> None:
        names = [f"c-{number}" for number in range(10)]
        for name in reversed(names):
            await store.put(f"/top/{name}", b"")
            await store.put(f"/top/{name}/below", b"")
        await store.put("/top-not-below", b"")

        assert await store.get_children("/top") == names
        for name in names:
            await store.delete_recursive(f"/top/{name}")
        assert await store.get_children("/top") == []

    async def test_names_around_the_separator_stay_sorted_and_single(
        self, store: MetadataStore
    ) -> None:
        for path in ("/p/a", "/p/a-b", "/p/a/x", "/p/a/y/z", "/p/a0", "/p/a.", "/p/b/c"):
            await store.put(path, b"")

        assert await store.get_children("/p") == ["a", "a-b", "a.", "a0", "b"]
        assert await store.get_children("/p/a") == ["x", "y"]

    async def test_any_printable_name_is_kept_as_it_is(self, store: MetadataStore) -> None:
        names = ["%", "%25", "a%", "a b", "b%2Fc", "z?=&#", "\u00e9", "\ufffd", "\U0001f600"]
        for name in names:
            await store.put(f"/{name}", name.encode())
            await store.put(f"/{name}/%/{name}", b"")

        assert await store.get_children("/") == sorted(names)
        for name in names:
            found = await store.get(f"/{name}")
            assert found is not None
            assert found.value == name.encode()
            assert await store.get_children(f"/{name}/%") == [name]

    async def test_parents_need_not_be_created(self, store: MetadataStore) -> None:
        await store.put("/a/b/c", b"")

        assert await store.get_children("/") == ["a"]
        assert await store.get_children("/a") == ["b"]
        assert await store.get_children("/a/b") == ["c"]
        assert not await store.exists("/a/b")
        assert await store.get("/a") is None

    async def test_parents_that_were_not_created_go_with_their_last_child(
        self, store: MetadataStore
    ) -> None:
        await store.put("/a/b/c", b"")
        await store.put("/a/d", b"")
        await store.delete("/a/b/c")
        assert await store.get_children("/a") == ["d"]
        await store.delete("/a/d")

        assert await store.get_children("/") == []

    async def test_a_parent_can_be_created_after_its_child(self, store: MetadataStore) -> None:
        await store.put("/a/b", b"")
        assert (await store.put("/a", b"value", NEW)).version == 0

        assert await store.get_children("/a") == ["b"]
        await store.delete("/a/b")
        assert await store.exists("/a")

    async def test_a_delete_needs_its_version_and_no_children(self, store: MetadataStore) -> None:
        await store.put("/a", b"")
        await store.put("/a/b", b"")
        with pytest.raises(PathHasChildren):
            await store.delete("/a")
        for wrong in (1, NEW):
            with pytest.raises(BadVersion):
                await store.delete("/a/b", wrong)
        await store.delete("/a/b", 0)
        await store.delete("/a")

        assert not await store.exists("/a")

    async def test_a_recursive_delete_takes_all_below_and_nothing_beside(
        self, store: MetadataStore
    ) -> None:
        for path in ("/a", "/a/b/c", "/a/b/d/e", "/ab", "/a-"):
            await store.put(path, b"")
        await store.delete_recursive("/a")

        assert await store.get_children("/") == ["a-", "ab"]
        await store.delete_recursive("/")
        assert await store.get_children("/") == []

    @pytest.mark.parametrize("path", WRONG_PATHS)
    async def test_a_malformed_path_is_refused(self, store: MetadataStore, path: str) -> None:
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: store.get(path),
            lambda: store.get_children(path),
            lambda: store.exists(path),
            lambda: store.put(path, b""),
            lambda: store.delete(path),
            lambda: store.delete_recursive(path),
        ]
        for call in calls:
            with pytest.raises(InvalidRequest) as caught:
                await call()
            assert caught.value.problem.code == "invalid_path"
        with pytest.raises(InvalidRequest):
            store.observe(lambda _: None, path)

    async def test_the_root_has_no_value(self, store: MetadataStore) -> None:
        assert await store.get("/") is None
        with pytest.raises(InvalidRequest):
            await store.put("/", b"")
        with pytest.raises(InvalidRequest):
            await store.delete("/")

    async def test_a_value_has_a_largest_size(self, store: MetadataStore) -> None:
        await store.put("/k", b"x" * VALUE_BYTES_MAX)
        with pytest.raises(TooLarge):
            await store.put("/k", b"x" * (VALUE_BYTES_MAX + 1))

        assert version_of(await store.get("/k")) == 0

    async def test_ephemeral_values_end_with_their_session(self, sessions: Sessions) -> None:
        short, other = await sessions(), await sessions()
        told: list[Notification] = []
        other.observe(told.append)
        stat = await short.put("/e/1", b"v", NEW, ephemeral=True)
        await other.put("/e/2", b"", ephemeral=True)
        await other.put("/e/3", b"")
        await until(lambda: (Change.CREATED, "/e/3") in told)
        told.clear()
        seen = await other.get("/e/1")

        assert (stat.is_ephemeral, stat.created_by_self) == (True, True)
        assert seen is not None
        assert (seen.stat.is_ephemeral, seen.stat.created_by_self) == (True, False)
        await short.close()
        await self.assert_told(told, [(Change.DELETED, "/e/1"), (Change.CHILDREN_CHANGED, "/e")])
        assert await other.get_children("/e") == ["2", "3"]

    async def test_a_put_over_a_value_leaves_it_as_ephemeral_as_it_was(
        self, sessions: Sessions
    ) -> None:
        owner, other = await sessions(), await sessions()
        await owner.put("/e", b"", ephemeral=True)
        await other.put("/p", b"")
        taken = await other.put("/e", b"other")
        kept = await owner.put("/p", b"owner", ephemeral=True)

        assert (taken.is_ephemeral, taken.created_by_self) == (True, False)
        assert not kept.is_ephemeral
        await owner.close()
        await until(lambda: is_gone(other, "/e"))
        assert await other.exists("/p")

    async def test_an_ephemeral_value_has_no_children(self, store: MetadataStore) -> None:
        await store.put("/e", b"", ephemeral=True)
        with pytest.raises(InvalidRequest):
            await store.put("/e/child", b"")
        await store.put("/p/child", b"")
        with pytest.raises(PathHasChildren):
            await store.put("/p", b"", ephemeral=True)

    async def test_sequential_paths_are_new_each_time(self, store: MetadataStore) -> None:
        stats = [await store.put("/my/path", b"v", NEW, sequential=True) for _ in range(2)]
        await store.delete(stats[1].path)
        stats.append(await store.put("/my/path", b"v", sequential=True, ephemeral=True))

        digits = [stat.path.removeprefix("/my/path") for stat in stats]
        assert all(text.isdecimal() for text in digits)
        numbers = [int(text) for text in digits]
        assert numbers == sorted(set(numbers))
        assert {stat.version for stat in stats} == {0}
        assert await store.exists(stats[0].path)
        assert stats[2].is_ephemeral

    async def test_of_many_who_put_at_one_version_one_wins(self, sessions: Sessions) -> None:
        stores = [await sessions() for _ in range(3)]

        async def count_up(store: MetadataStore) -> None:
            for _ in range(10):
                while True:
                    found = await store.get("/count")
                    number, version = (
                        (0, NEW) if found is None else (int(found.value), found.stat.version)
                    )
                    try:
                        await store.put("/count", str(number + 1).encode(), version)
                    except BadVersion:
                        continue
                    break

        await asyncio.gather(*map(count_up, stores))
        found = await stores[0].get("/count")

        assert found is not None
        assert (found.value, found.stat.version) == (b"30", 29)

    async def test_calls_at_once_have_their_own_outcomes(self, store: MetadataStore) -> None:
        first, second, third, fourth = await asyncio.gather(
            store.put("/a", b""),
            store.put("/b", b"", 1),
            store.put("/c", b"", NEW),
            store.delete("/d"),
            return_exceptions=True,
        )

        assert not isinstance(first, BaseException)
        assert isinstance(second, BadVersion)
        assert not isinstance(third, BaseException)
        assert isinstance(fourth, PathNotFound)

    async def test_many_large_values_at_once(self, store: MetadataStore) -> None:
        await asyncio.gather(*(store.put(f"/big/{n}", bytes(500_000)) for n in range(40)))

        assert len(await store.get_children("/big")) == 40

    async def test_a_lock_of_a_living_session_is_busy_whatever_its_content(
        self, sessions: Sessions
    ) -> None:
        former, latter = await sessions(), await sessions()
        path, holders = "/locks/1", CoordinationService(former)
        lock = await holders.acquire_lock(path, b"me")
        for content in (b"me", b"you", b"me"):
            service = CoordinationService(latter)
            with pytest.raises(LockBusy):
                await service.acquire_lock(path, content)
            await service.close()
        found = await latter.get(path)
        assert found is not None
        assert (found.value, found.stat.created_revision) == (b"me", lock.token)
        assert lock.is_valid

        await former.close()

        await until(lambda: is_gone(latter, path))
        again = await CoordinationService(latter).acquire_lock(path, b"me")
        assert again.token > lock.token

    async def test_a_closed_store_refuses_everything(self, store: MetadataStore) -> None:
        assert store.is_connected
        await store.close()
        await store.close()

        assert not store.is_connected
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: store.get("/a"),
            lambda: store.get_children("/a"),
            lambda: store.exists("/a"),
            lambda: store.put("/a", b""),
            lambda: store.delete("/a"),
            lambda: store.delete_recursive("/a"),
        ]
        for call in calls:
            with pytest.raises(MetadataClosed):
                await call()


async def is_gone(store: MetadataStore, path: str) -> bool:
    return not await store.exists(path)
