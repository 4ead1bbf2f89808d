"""The notifications of every MetadataStore; the rest of the contract is beside this file."""

from collections.abc import Awaitable, Callable

import pytest

from tests.waiting import until
from tms.metadata.interface import Change, MetadataStore, Notification

Sessions = Callable[[], Awaitable[MetadataStore]]


def is_subsequence(wanted: list[Notification], told: list[Notification]) -> bool:
    left = iter(told)
    return all(each in left for each in wanted)


def of_values(told: list[Notification]) -> list[Notification]:
    return [each for each in told if each.change is not Change.CHILDREN_CHANGED]


class NotificationsContract:
    tells_of_children_exactly = True
    """False if an ancestor may be notified of changed children although none changed."""

    def is_told(self, told: list[Notification], wanted: list[Notification]) -> bool:
        if self.tells_of_children_exactly:
            return told == wanted
        return of_values(told) == of_values(wanted) and is_subsequence(wanted, told)

    async def assert_told(self, told: list[Notification], wanted: list[tuple[Change, str]]) -> None:
        all_wanted = [Notification(*each) for each in wanted]
        try:
            await until(lambda: self.is_told(told, all_wanted))
        except TimeoutError:
            assert told == all_wanted

    async def test_changes_are_reported_in_order(self, sessions: Sessions) -> None:
        writer, watcher = await sessions(), await sessions()
        told: list[Notification] = []
        watcher.observe(told.append)
        await writer.put("/a", b"0")
        await writer.put("/a", b"1")
        await writer.put("/a/b", b"")
        await writer.delete("/a/b")
        await writer.delete("/a")

        wanted = [
            (Change.CREATED, "/a"),
            (Change.CHILDREN_CHANGED, "/"),
            (Change.MODIFIED, "/a"),
            (Change.CREATED, "/a/b"),
            (Change.CHILDREN_CHANGED, "/a"),
            (Change.DELETED, "/a/b"),
            (Change.CHILDREN_CHANGED, "/a"),
            (Change.DELETED, "/a"),
            (Change.CHILDREN_CHANGED, "/"),
        ]
        await self.assert_told(told, wanted)

    async def test_an_ancestor_hears_where_its_children_are_others(
        self, store: MetadataStore
    ) -> None:
        told: list[Notification] = []
        store.observe(told.append, "/a")
        await store.put("/a/b/c", b"")
        await store.put("/a/b/d", b"")

        wanted = [
            (Change.CREATED, "/a/b/c"),
            (Change.CHILDREN_CHANGED, "/a/b"),
            (Change.CHILDREN_CHANGED, "/a"),
            (Change.CREATED, "/a/b/d"),
            (Change.CHILDREN_CHANGED, "/a/b"),
        ]
        await self.assert_told(told, wanted)

    async def test_an_observer_hears_of_its_sub_tree_until_stopped(
        self, store: MetadataStore
    ) -> None:
        below: list[Notification] = []
        everything: list[Notification] = []
        stop = store.observe(below.append, "/a")
        store.observe(everything.append)
        for path in ("/a", "/ab", "/a/b"):
            await store.put(path, b"")
        await until(lambda: (Change.CHILDREN_CHANGED, "/a") in everything)
        stop()
        stop()
        await store.put("/a/c", b"")
        await until(lambda: (Change.CREATED, "/a/c") in everything)

        assert of_values(below) == [(Change.CREATED, "/a"), (Change.CREATED, "/a/b")]
        assert {told.path for told in below} == {"/a", "/a/b"}

    async def test_an_observer_that_fails_keeps_nothing_from_others(
        self, store: MetadataStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(_: Notification) -> None:
            raise ValueError

        told: list[Notification] = []
        store.observe(fail)
        store.observe(told.append)
        await store.put("/a", b"")
        await until(lambda: len(told) >= 2)

        assert "observer" in caplog.text
