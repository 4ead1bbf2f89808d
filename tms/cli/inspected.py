"""The tables that `tms debug` reads: those of a server, or of a store that is opened here.

Either is a `tms.core.values.inspection.PartwiseInspection`.
"""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar
from urllib.parse import urlencode

import typer

from tms.cli.target import Target
from tms.client.remote.http import Http
from tms.client.remote.retry import repeat
from tms.core.errors import DebugBusy, InvalidRequest, StoreNotFound
from tms.core.text.store_url import HBASE, folder_of, has_scheme, url_of_shard, written
from tms.core.values.inspection import (
    ROWS_MAX,
    TABLES,
    Bounds,
    Facts,
    PartwiseInspection,
    Problems,
    Rows,
    Size,
)
from tms.core.values.topic import TopicId
from tms.wire.json_states import decode_cleanup
from tms.wire.json_values import decode_answer

_ANSWER_S_MAX = 120.0
_BUSY_S_MAX = 60.0
"""How long to wait for other debug reports: the server makes one at a time."""
_DEBUG = "v1/debug"

Answer = TypeVar("Answer")


@asynccontextmanager
async def inspected(
    target: Target, store: str | None, shard: int | None = None
) -> AsyncIterator[PartwiseInspection]:
    """Yield the inspection of `store`, or if that is None, of the server of `target`.

    It covers one shard if `shard` is given. Raises `StoreLocked`, which names the store's process,
    and a usage error if either does not exist.
    """
    if store is not None:
        inspection = _opened(store if shard is None else url_of_shard(store, shard))
        try:
            yield inspection
        finally:
            inspection.close()
        return
    async with target.http(timeout_s=_ANSWER_S_MAX, compress=True) as http:
        yield _Server(http, shard)


async def shards_of(target: Target, store: str | None) -> list[int | None]:
    """Return the numbers of the shards; `[None]` for a store without shards, or for one shard.

    Raises as `inspected`.
    """
    if store is None:
        async with inspected(target, None) as inspection:
            try:
                await inspection.size(TABLES[0], None, 1)
            except InvalidRequest as error:
                if error.problem.code != "shard_required":
                    raise
                return [*range(error.detail["shards"])]
        return [None]
    _check_kept(store)
    from tms.server.stores import sharding_of  # noqa: PLC0415  the whole server
    from tms.settings import Settings  # noqa: PLC0415  as above

    with _usage_errors():
        sharding = sharding_of(store, Settings.model_construct())
    return [None] if sharding is None else [*range(sharding.shards)]


def _check_kept(store: str) -> None:
    if folder_of(store) is None and not has_scheme(store, HBASE):
        raise typer.BadParameter(f"give {written(durable=True)}", param_hint="--store")


def _opened(store: str) -> Any:
    from tms.server.stores import inspect  # noqa: PLC0415  the whole server

    _check_kept(store)
    with _usage_errors():
        return inspect(store)


@contextmanager
def _usage_errors() -> Iterator[None]:
    try:
        yield
    except StoreNotFound as error:
        reason = f"there is no store in {error.detail['folder']}"
        raise typer.BadParameter(reason, param_hint="--store") from None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--store") from None


def _is_busy(error: BaseException) -> bool:
    return isinstance(error, DebugBusy)


class _Server:
    """The inspection of a server's tables, over REST."""

    def __init__(self, http: Http, shard: int | None) -> None:
        self._http = http
        self._shard = shard

    async def _ask(self, kind: type[Answer], path: str, **query: object) -> Answer:
        query["shard"] = self._shard
        encoded = urlencode({name: each for name, each in query.items() if each is not None})
        answer = await repeat(
            partial(self._http.send, "GET", f"{_DEBUG}/{path}?{encoded}"),
            when=_is_busy,
            for_s=_BUSY_S_MAX,
        )
        return decode_answer(kind, answer)

    async def rows(
        self,
        table: str,
        topic_id: TopicId | None,
        from_ms: int | None,
        after: str | None,
        limit: int,
    ) -> Rows:
        """Return decoded rows of one topic or all; a topic's messages from a time on."""
        topic = {"namespace": topic_id.namespace, "topic": topic_id.name} if topic_id else {}
        query = {"table": table, "from": from_ms, "after": after, "limit": limit, **topic}
        return await self._ask(Rows, "rows", **query)

    async def size(self, table: str, after: str | None, limit: int) -> Size:
        """Return the size of the next `limit` rows of a table."""
        return await self._ask(Size, "size", table=table, after=after, limit=limit)

    async def problems(
        self, checked: str, after: str | None, limit: int, *, is_cleaned: bool
    ) -> Problems:
        """Check the next rows of a table; `is_cleaned`: none may be of a dead generation."""
        cleaned = str(is_cleaned).lower()
        return await self._ask(
            Problems, "problems", table=checked, after=after, limit=limit, cleaned=cleaned
        )

    async def bounds(self) -> Bounds:
        """Return how far invalid transactions are cleaned up, and why others stay listed."""
        shard = "" if self._shard is None else f"?shard={self._shard}"
        state = decode_cleanup(await self._http.send("GET", f"v1/cleanup{shard}"))
        return Bounds(bounds=state.bounds, invalid=state.invalid)

    async def explain(self, topic_id: TopicId, message_id: bytes) -> Facts:
        """Return the parts of an id, its stored rows, and why readers get the message or not."""
        path = f"namespaces/{topic_id.namespace}/topics/{topic_id.name}/explain"
        return await self._ask(dict[str, Any], path, id=message_id.hex())


class _Part(Protocol):
    @property
    def next(self) -> str | None: ...


Part = TypeVar("Part", bound=_Part)


async def parts(ask: Callable[[str | None], Awaitable[Part]]) -> AsyncIterator[Part]:
    """Yield all parts of a list, each requested with the `next` of the previous one."""
    after: str | None = None
    while True:
        part = await ask(after)
        yield part
        after = part.next
        if after is None:
            return


@dataclass(frozen=True, slots=True)
class Wanted:
    """A selection of rows."""

    table: str
    topic_id: TopicId | None = None
    from_ms: int | None = None
    limit: int | None = None
    """None means all."""

    async def rows(self, inspection: PartwiseInspection) -> AsyncIterator[Facts]:
        """Yield the rows, decoded."""
        remaining = sys.maxsize if self.limit is None else self.limit
        after: str | None = None
        while remaining:
            count = min(remaining, ROWS_MAX)
            part = await inspection.rows(self.table, self.topic_id, self.from_ms, after, count)
            for facts in part.rows:
                yield facts
            remaining, after = remaining - len(part.rows), part.next
            if after is None:
                return
