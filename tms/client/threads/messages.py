"""Messages one by one, for threads."""

from collections.abc import Callable
from typing import Any, Generic, Protocol, Self, TypeVar

Item = TypeVar("Item")


class Closable(Protocol):
    """An iteration in an event loop that may be half done."""

    async def aclose(self) -> None:
        """End it."""
        ...


class Runs(Closable, Protocol):
    """Runs of messages: `tms.client.reading.half_read.HalfRead`."""

    async def next(self, items: list[Any]) -> bool:
        """Fill `items` with the next run in reverse if it is empty; return False at the end."""
        ...


class Messages(Generic[Item]):
    """An iterator over messages, returned by `poll`, `follow` and `take`.

    Any number of threads may take from it; each message is given once. `close` ends it, even while
    a thread waits for the next message. You need not call it: an iterator without references ends
    by itself.
    """

    __slots__ = ("_end", "_form", "_items", "_next_run")

    def __init__(
        self,
        next_run: Callable[[list[Any]], bool],
        end: Callable[[], None],
        form: Callable[[Any], Item] | None = None,
    ) -> None:
        """Iterate over the items that `next_run` puts into a list, converted by `form`.

        Call `end` once: after the last run, after an error, or if it is closed.
        """
        self._next_run = next_run
        self._end: Callable[[], None] | None = end
        self._form = form
        self._items: list[Any] = []
        """The rest of the run in reverse, the next message last."""

    def __iter__(self) -> Self:
        """Return itself; messages are not given twice."""
        return self

    def __next__(self) -> Item:
        """Return the next message. Raises as the method that returned the iterator."""
        while True:
            try:
                item = self._items.pop()
            except IndexError:
                self._fetch()
            else:
                return item if self._form is None else self._form(item)

    def _fetch(self) -> None:
        items = self._items
        if self._end is None:
            raise StopIteration
        try:
            if self._next_run(items):
                return
        except BaseException:
            if items is not self._items:  # closed in the meantime
                raise StopIteration from None
            self._finish()
            raise
        self._finish()
        raise StopIteration

    def _finish(self) -> None:
        """End the source; other threads may still take what it gave."""
        end, self._end = self._end, None
        if end is not None:
            end()

    def close(self) -> None:
        """End it, without waiting. Closing twice is harmless."""
        self._finish()
        self._items = []  # what a waiting thread still gets is dropped with the old list

    def __del__(self) -> None:
        """End it. The garbage collector may call this: it takes no lock."""
        self.close()
