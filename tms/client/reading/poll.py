"""One poll: its options, and its answer in runs of messages.

The options are defined only here: their types for type checkers and editors (`PollOptions`), and
their defaults (`reading`). The decorator `with_options` shows both to `help`.
"""

import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import wraps
from typing import Any, TypedDict, TypeVar, get_args

from tms.client.reading.half_read import Generated, HalfRead
from tms.client.reading.start import Start, position
from tms.client.reading.stops import Stops
from tms.client.transactions.transaction_work import OpenTransaction
from tms.core.errors import InvalidRequest
from tms.core.limits import LIMIT_MAX
from tms.core.services.messaging import Messaging, Passed
from tms.core.text.durations import Duration, seconds_of
from tms.core.values.filters import filter_of
from tms.core.values.message import Message, MessageBlock
from tms.core.values.reading import Reading, View, isolation_of
from tms.core.values.topic import TopicId
from tms.core.values.transaction import Transaction

Tx = Transaction | int | OpenTransaction
"""A transaction: one of `transaction()`, a `Transaction` from elsewhere, or a number: the write
pointer to publish, the id of a transaction in progress to poll."""

Method = TypeVar("Method", bound=Callable[..., Any])

Blocks = AsyncGenerator[list[Message], None]
"""Runs of messages, none of them empty."""
Runs = AsyncGenerator[list[Any], None]
"""Runs of messages, of records or of record batches, none of them empty."""


class FollowOptions(TypedDict, total=False):
    """The start of a reader of a topic, and the messages it gets. All options are optional."""

    after: Start | None
    """Begin after it. By default None."""
    start: Start | None
    """Begin at it. By default None; without `after` too, the oldest message is the first."""
    committed: bool
    """Return only committed messages. By default False: all messages."""
    filter: str | None
    """Return only messages whose key and headers match it (docs/filters.md). By default None."""


class PollOptions(FollowOptions, total=False):
    """The options of a poll of a topic. All are optional."""

    end: Start | None
    """Stop before it. By default there is no end."""
    limit: int | None
    """The most messages. By default as many as one poll of the server gives."""
    tx: Tx | None
    """Return the messages that this transaction can see. By default None."""
    wait_s: float
    """For how many seconds to wait for messages if there are none. By default 0."""
    timeout_s: Duration | None
    """How long it all may take, including the wait. By default as `connect` says."""


class SubscriptionPollOptions(TypedDict, total=False):
    """The options of a poll of a subscription, as in `PollOptions`. All are optional."""

    tx: Tx | None
    committed: bool
    filter: str | None
    wait_s: float
    timeout_s: Duration | None


def reading(
    *,
    after: Start | None = None,
    start: Start | None = None,
    end: Start | None = None,
    limit: int | None = None,
    tx: Tx | None = None,
    committed: bool = False,
    filter: str | None = None,
    wait_s: float = 0.0,
    timeout_s: Duration | None = None,
) -> Reading:
    """Return the request of a poll; without a limit, for as much as one poll may give.

    Raises `InvalidRequest` (invalid_limit, invalid_filter, and as `position`), `ValueError` for
    contradictory options, `RuntimeError` if the transaction has ended.
    """
    del timeout_s  # not sent to the server (`polled`)
    if limit is not None and limit < 1:
        raise InvalidRequest("invalid_limit", limit=limit)
    if committed and tx is not None:
        raise ValueError(
            "give either tx or committed: a transaction decides itself which messages it sees"
        )
    if end is not None and wait_s:
        raise ValueError("give either end or wait_s: a range that has an end does not wait")
    limit = LIMIT_MAX if limit is None else min(limit, LIMIT_MAX)
    view = isolation_of(committed=committed) if tx is None else _view_of(tx)
    until = None if end is None else position(after=None, start=end)
    first = position(after=after, start=start)
    return Reading(first, limit, view, until, None if filter is None else filter_of(filter))


def _view_of(tx: Tx) -> View:
    return tx if isinstance(tx, int | Transaction) else tx.gathered.transaction_id


def with_options(method: Method) -> Method:
    """Show the options that a method takes by `Unpack` as its own arguments.

    `help` and `inspect` show their names, types and defaults; editors know them by the types. An
    unknown option raises `TypeError`.
    """
    signature = inspect.signature(method)
    *own, packed = signature.parameters.values()
    (options,) = get_args(packed.annotation)
    defaults = inspect.signature(reading).parameters
    parameters = [*(defaults[name] for name in options.__annotations__)]
    at = sum(each.kind is not inspect.Parameter.KEYWORD_ONLY for each in own)
    parameters = [*own[:at], *parameters, *own[at:]]
    names = frozenset(parameter.name for parameter in parameters)

    @wraps(method)
    def checked(self: Any, *arguments: Any, **named: Any) -> Any:
        for name in named.keys() - names:
            raise TypeError(f"{method.__name__}() got an unexpected keyword argument {name!r}")
        return method(self, *arguments, **named)

    vars(checked)["__signature__"] = signature.replace(parameters=parameters)
    return checked  # type: ignore[return-value]


async def blocks_of(
    messaging: Messaging,
    topic_id: TopicId,
    reading: Reading,
    stops: Stops,
    wait_s: float = 0.0,
    *,
    passed: Passed | None = None,
) -> Blocks:
    """Yield the requested messages, decoded."""
    answer = message_blocks(messaging, topic_id, reading, stops, wait_s, passed=passed)
    async with aclosing(answer) as blocks:
        async for block in blocks:
            yield list(block)


async def message_blocks(
    messaging: Messaging,
    topic_id: TopicId,
    reading: Reading,
    stops: Stops,
    wait_s: float = 0.0,
    *,
    passed: Passed | None = None,
) -> AsyncGenerator[MessageBlock, None]:
    """Yield the requested messages in blocks; report to `stops` where the reader stops."""
    with stops.watched(topic_id, reading.view) as stopped:
        blocks = messaging.poll(topic_id, reading, wait_s, stopped, passed=passed)
        try:
            async for block in blocks:
                yield block
        finally:
            if isinstance(blocks, AsyncGenerator):
                await blocks.aclose()


def polled(runs: Runs, **options: Any) -> HalfRead:
    """Return the reader of a poll's runs, with the time limit in its options."""
    timeout_s = options.get("timeout_s")
    within_s = None if timeout_s is None else seconds_of(timeout_s)
    return HalfRead(Generated(lambda: runs), timeout_s=within_s)
