"""The REST calls of Spark's source and sink to a server (docs/spark.md explains each).

One `SparkServer` belongs to one process, and to one thread at a time. Each Spark worker creates its
own, and closes it. Guarantees: reading a range continues after the last row returned, whatever
happens to the connection, until the end of the range; a store is sent only once, because a second
one would duplicate its messages under the same write pointer; a commit is repeated until its
outcome is known.
"""

from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import msgspec
import pyarrow as pa

from tms.client.remote.calls import JSON, Calls
from tms.client.remote.http import Http
from tms.client.remote.remote_messaging import RemoteMessaging, topic_path
from tms.client.remote.remote_ranges import RemoteRanges
from tms.client.remote.remote_transactions import RemoteTransactions
from tms.client.remote.retry import may_pass, repeat_in_thread
from tms.client.threads.bridge import Bridge
from tms.core.errors import (
    NotTms,
    OwnerBusy,
    TransactionNotInProgress,
)
from tms.core.limits import LIMIT_MAX
from tms.core.services.commits import CommitRequest, Stored
from tms.core.services.messaging import NEXT_POSITION
from tms.core.services.transactions import IfOpen, StartRequest, TransactionStatus
from tms.core.text.credentials import without_credentials
from tms.core.values.message import ID_BYTES, id_after, parse_id
from tms.core.values.ranges import Reach
from tms.core.values.reading import Isolation
from tms.core.values.topic import TopicId
from tms.spark.arrow_stream import ARROW, ARROW_FRAMES, batches_of, stream_of
from tms.spark.offsets import Standing, Standings
from tms.spark.option_types import ServerOptions
from tms.spark.plan import Range, Span
from tms.spark.prerequisites import without_arrow
from tms.spark.typed.registered import RegisteredSchemas

TOPICS_PER_CALL = 10_000
CALLS_AT_ONCE = 4
_CLIENT = "spark"

Result = TypeVar("Result")
Item = TypeVar("Item")


class _Welcome(msgspec.Struct):
    """A server's first page, readable by any caller."""

    arrow: bool = True


class SparkServer:
    """One namespace of a server. Methods may raise `Unavailable` and `OutcomeUnknown`.

    Closes as a context manager.
    """

    def __init__(self, connection: ServerOptions) -> None:
        """Do not connect yet. Raises `ValueError` if the URL is not valid."""
        self._url = without_credentials(connection.url)
        self._retry_for_s = connection.retry_for_s
        self._namespace = connection.namespace
        http = Http(
            connection.url,
            timeout_s=connection.timeout_s,
            compress=connection.compress,
            access=connection.access(),
        )
        self._calls = Calls(http, connection.retry_for_s)
        self._messaging = RemoteMessaging(self._calls)
        self._ranges = RemoteRanges(self._calls)
        self._transactions = RemoteTransactions(self._calls)
        self._bridge = Bridge()
        self._bridge.close_with(http.close)
        self.schemas = RegisteredSchemas(self._calls, self._bridge, self._namespace)

    def check_arrow(self) -> None:
        """Raise `CannotRun` if the server says that it has no Arrow; an older one does not say.

        Any caller may do this.
        """
        answer = self._repeated(self._calls.http.send, "GET", "")
        try:
            welcome = msgspec.json.decode(answer, type=_Welcome)
        except msgspec.MsgspecError:
            raise NotTms(url=self._url, reason="the answer is other JSON") from None
        if not welcome.arrow:
            raise without_arrow(self._url)

    # Topics

    def topics(self) -> list[str]:
        """Return the names of the namespace's topics."""
        return list(self._bridge.call(self._messaging.topics, self._namespace))

    def standings(self, topics: Iterable[str], isolation: Isolation) -> tuple[Standings, int]:
        """Return the state of topics, and the server's time in milliseconds since 1970."""
        names = list(topics)
        by_topic: dict[str, Standing | None] = {}
        time_ms = 0
        for at in range(0, max(1, len(names)), TOPICS_PER_CALL):
            ids = [self._id(topic) for topic in names[at : at + TOPICS_PER_CALL]]
            answer = self._bridge.call(self._ranges.ranges, ids, isolation)
            time_ms = answer.time_ms
            by_topic |= {
                topic_id.name: None
                if one is None
                else Standing(*one, expired_before=answer.expired_before[topic_id])
                for topic_id, one in answer.topics.items()
            }
        return by_topic, time_ms

    # Ranges

    def splits(self, ranges: Sequence[Range], parts: int) -> list[Span]:
        """Return spans that cover `ranges`, in order, each range in at most `parts`."""

        async def split(whole: Range) -> list[Span]:
            parts_found = await self._ranges.splits(
                self._id(whole.topic), whole.start, whole.end, parts
            )
            return [Span(whole.topic, *part) for part in parts_found]

        return [span for spans in self._all(split, ranges) for span in spans]

    def reaches(
        self,
        ranges: Sequence[Range],
        isolation: Isolation,
        messages: Mapping[str, int] | None,
        sizes: Mapping[str, int] | None,
    ) -> list[bytes]:
        """Return how far each topic's share of messages and payload bytes reaches."""

        async def reach(part: Range) -> bytes:
            most = None if messages is None else messages[part.topic]
            size = None if sizes is None else sizes[part.topic]
            return (await self._reach(part, isolation, most, size)).end

        return self._all(reach, ranges)

    def first(self, ranges: Sequence[Range], isolation: Isolation, messages: int) -> list[Reach]:
        """Return how far the first messages of each range reach, up to that number."""

        async def reach(part: Range) -> Reach:
            return await self._reach(part, isolation, messages, None)

        return self._all(reach, ranges)

    def _reach(
        self, part: Range, isolation: Isolation, messages: int | None, size: int | None
    ) -> Awaitable[Reach]:
        return self._ranges.reach(
            self._id(part.topic),
            part.start,
            part.end,
            messages=messages,
            payload_bytes=size,
            isolation=isolation,
        )

    def rows(
        self, part: Range, isolation: Isolation, chosen: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows of a range, or those that the filter `chosen` matches, in order.

        They have the server's form. Raises `TopicNotFound` if the topic was deleted; other losses
        are not reported here.
        """
        position = part.start
        batches = iter(())
        request = {"limit": LIMIT_MAX, "end": part.end.hex(), "isolation": isolation}
        request |= {} if chosen is None else {"filter": chosen}
        reached: list[bytes] = []
        """With a filter, where the last answer says to continue."""

        def poll() -> Iterator[pa.RecordBatch]:
            reached.clear()
            return self._poll(part.topic, {"startFrom": position.hex(), **request}, reached.append)

        def next_batch() -> pa.RecordBatch | None:
            nonlocal batches
            try:
                return next(batches, None)
            except Exception:
                batches = poll()
                raise

        repeated = partial(repeat_in_thread, next_batch, when=may_pass, for_s=self._retry_for_s)
        while position < part.end:
            batches = poll()
            began_at = position
            while (batch := repeated()) is not None:
                if batch.num_rows:
                    position = id_after(_last_id(batch))
                    yield batch
            position = max(position, *reached, began_at)
            if position == began_at:
                return

    def _poll(
        self, topic: str, request: Mapping[str, Any], reached: Callable[[bytes], None]
    ) -> Iterator[pa.RecordBatch]:
        body = msgspec.json.encode(request)
        parts = self._parts(f"{self._topic(topic)}/poll", body, reached)
        life = self._bridge.life
        try:
            yield from batches_of(lambda: self._bridge.call(lambda: anext(parts, b"")))
        finally:
            self._bridge.give_up(life, parts)

    async def _parts(
        self, path: str, body: bytes, reached: Callable[[bytes], None]
    ) -> AsyncGenerator[bytes, None]:
        async with self._calls.http.stream(path, body, JSON, {}, 0.0, accept=ARROW_FRAMES) as (
            headers,
            parts,
        ):
            if NEXT_POSITION in headers:
                reached(parse_id(headers[NEXT_POSITION]))
            async for part in parts:
                yield part

    # Transactions

    def start(
        self,
        timeout_s: int,
        owner: str | None = None,
        sequence: int | None = None,
        origin: str | None = None,
        *,
        home: str | None = None,
    ) -> int:
        """Return the id of a new transaction, or of the open one of the same work.

        Its home is the shard of the topic `home`, or by default of the namespace. An open
        transaction of the owner's earlier work is invalidated, because it is obsolete. Raises
        `TransactionDuplicate` if the sequence is already committed, `OwnerElsewhere` if another
        origin committed it, and `OwnerBusy` if another origin has the same work open.
        """
        request = StartRequest(
            timeout_s=timeout_s,
            client=_CLIENT,
            owner=owner,
            sequence=sequence,
            origin=origin,
            if_open=IfOpen.REFUSE if owner is None else IfOpen.JOIN,
            namespace=self._namespace,
            topic=home,
        )
        try:
            started = self._bridge.call(self._transactions.start, request)
        except OwnerBusy as error:
            busy = error.detail.get("sequence")
            if busy is None or sequence is None or busy >= sequence:
                raise
            with suppress(TransactionNotInProgress):
                self._bridge.call(
                    self._transactions.invalidate, int(error.detail["transaction_id"])
                )
            started = self._bridge.call(self._transactions.start, request)
        return started.transaction_id

    def check_not_done(
        self, owner: str, sequence: int, origin: str, *, home: str | None = None
    ) -> None:
        """Raise `TransactionDuplicate` or `OwnerElsewhere` if an owner's sequence is committed.

        It is for an owner for which nothing will be written. `home` is as in `start`.
        """
        request = StartRequest(
            client=_CLIENT,
            owner=owner,
            sequence=sequence,
            origin=origin,
            namespace=self._namespace,
            topic=home,
        )
        try:
            # If the answer is lost, the repeated call raises `OwnerBusy`: the result is the same.
            started = self._repeated(self._transactions.start, request)
        except OwnerBusy:  # which is raised only if the sequence is not committed
            return
        self.abort(started.transaction_id)

    def checkpoint(self, transaction_id: int) -> int:
        """Return a new write pointer of the transaction."""
        return self._bridge.call(self._transactions.checkpoint, transaction_id).write_pointer

    def store(self, topic: str, messages: pa.RecordBatch, write_pointer: int) -> Stored:
        """Store messages invisibly until a commit publishes them; durable on return."""
        path = f"{self._topic(topic)}/store?write_pointer={write_pointer}"
        self._once("POST", path, stream_of(messages))
        return Stored(self._id(topic), write_pointer)

    def publish(self, topic: str, messages: pa.RecordBatch) -> None:
        """Publish messages at once, without a transaction; durable on return."""
        self._once("POST", f"{self._topic(topic)}/publish", stream_of(messages))

    def commit(self, transaction_id: int, publications: Sequence[Stored]) -> None:
        """Publish stored messages, in this order, and commit, in one step.

        Also returns if the transaction was committed before, by any caller. Raises
        `TransactionDuplicate`, `TransactionNotInProgress`, `TransactionUnknown`.
        """
        request = CommitRequest(publish=publications)
        try:
            self._repeated(self._transactions.commit, transaction_id, request)
        except TransactionNotInProgress as error:
            if error.detail.get("status") != TransactionStatus.COMMITTED:
                raise

    def abort(self, transaction_id: int) -> None:
        """Abort a transaction, unless it has ended, so its stored messages are never seen."""
        with suppress(TransactionNotInProgress):
            self._bridge.call(self._transactions.abort, transaction_id)

    # Calls

    def _id(self, topic: str) -> TopicId:
        return TopicId(self._namespace, topic)

    def _topic(self, topic: str) -> str:
        return topic_path(self._id(topic))

    def _repeated(self, call: Callable[..., Awaitable[Result]], *arguments: object) -> Result:
        """Return the result of a call that is harmless to repeat."""
        return self._bridge.call(self._calls.repeat, may_pass, call, *arguments)

    def _once(self, method: str, path: str, body: bytes) -> bytes:
        return self._bridge.call(self._calls.once, method, path, body, ARROW)

    def _all(
        self, call: Callable[[Item], Awaitable[Result]], items: Sequence[Item]
    ) -> list[Result]:
        """Return the result of `call` for each item, some concurrently."""
        results: dict[int, Result] = {}

        async def run() -> None:
            pending = iter(enumerate(items))

            async def work() -> None:
                for number, item in pending:
                    results[number] = await call(item)

            async with anyio.create_task_group() as group:
                for _ in range(min(CALLS_AT_ONCE, len(items))):
                    group.start_soon(work)

        try:
            self._bridge.call(run)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        return [results[number] for number in range(len(items))]

    def close(self) -> None:
        """Close the connections. Closing twice is allowed."""
        self._bridge.close()

    def __enter__(self) -> Self:
        """Return the server itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connections; soon, if an unfinished generator is dropped."""
        if kind is GeneratorExit:  # possibly by the garbage collector, in any thread
            self._bridge.close_soon()
        else:
            self.close()


def _last_id(batch: pa.RecordBatch) -> bytes:
    last: bytes = batch.column("message_id")[batch.num_rows - 1].as_py()
    assert len(last) == ID_BYTES
    return last
