"""One topic: its properties, its readers, a picture of its log, and forms that change it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from api.console.charts import Chart
from api.console.log_picture import LogPicture, picture_of
from api.console.row import Row
from api.console.times import time_of
from api.console.topic_readers import SHOWN_MAX, TopicReader, readers_of
from api.console.topic_settings import FIELDS, others_of, settings_of
from api.console.typed import check_confirmed
from api.console.visit import Answer, Done, ShownPage, Visit, place
from tms.core.errors import TopicNotFound, TransactionsElsewhere
from tms.core.services.server_services import ServerServices
from tms.core.values.message import NO_PAYLOAD_KEY, published_ms
from tms.core.values.ranges import TopicRange
from tms.core.values.reading import Isolation, Reading
from tms.core.values.topic import TopicId
from tms.core.values.topic_schemas import schemas_of
from tms.security.resources import Action

_PARTS = 8
_PROPERTIES_SHOWN, _OTHERS_CHARS_MAX = 50, 10_000
"""The most properties that the form can change: with more, the page would be large."""


@dataclass(frozen=True, slots=True)
class _Stop:
    """The first unfinished transaction."""

    transaction_id: int
    position: bytes


class _Log(NamedTuple):
    """The log of a topic, for visitors who may consume it."""

    is_empty: bool
    age_s: float
    """The age of the oldest message."""
    size_bytes: int | None
    """Its approximate size; None if unknown."""
    stop: _Stop | None
    picture: LogPicture | None


async def topic(visit: Visit) -> Answer:
    """Show a topic."""
    topic_id = visit.exchange.topic_id
    topic = await visit.services.messaging.topic(topic_id)
    ranges = await visit.services.ranges.ranges([topic_id], Isolation.ALL)
    log = ranges.topics[topic_id]
    if log is None:
        raise TopicNotFound(topic=str(topic_id))
    may_read = visit.may_topic(Action.CONSUME, topic_id.namespace, topic_id.name)
    readers = await readers_of(visit, topic_id, log.end if may_read else None, ranges.time_ms)
    others = others_of(topic.properties)
    values = {
        "topic": topic,
        "properties": list(topic.all_properties().items())[:_PROPERTIES_SHOWN],
        "log": await _log(visit, topic_id, log, ranges.time_ms, readers) if may_read else None,
        "readers": readers[:SHOWN_MAX],
        "readers_count": len(readers),
        "charts": _charts(visit, topic_id) if may_read else [],
        "may_see_transactions": visit.may(Action.TRANSACT),
        "schemas": schemas_of(topic_id, topic.properties),
        "may_read": may_read,
        "may_manage": visit.may_change_topic(Action.MANAGE, topic_id.namespace, topic_id.name),
        "fields": FIELDS,
        "others": others if len(others) <= _OTHERS_CHARS_MAX else None,
        "here": place("namespaces", topic_id.namespace, "topics", topic_id.name),
    }
    return ShownPage("topic.html", values)


def _charts(visit: Visit, topic_id: TopicId) -> list[Chart]:
    """Return the rates of the last hour, if the watch keeps them for this topic.

    Rates of polls are only shown to visitors who may operate the server.
    """
    history = visit.exchange.context.watch.history
    rates = history.topic((topic_id.namespace, topic_id.name))
    if rates is None:
        return []
    ways = ("in", "out") if visit.may(Action.OPERATE) else ("in",)
    units = (("Messages", "messages", "/s"), ("Bytes", "bytes", "B/s"))
    return [
        Chart(title, unit, history.times_ms(), [(way, rates[f"{field}_{way}"]) for way in ways])
        for title, field, unit in units
    ]


async def _log(
    visit: Visit, topic_id: TopicId, log: TopicRange, now_ms: int, readers: Sequence[TopicReader]
) -> _Log:
    stop = await _stop(visit.services, topic_id)
    last_ms = min(now_ms, _last_ms(log.end))
    return _Log(
        is_empty=log.start >= log.end,
        age_s=max(0, now_ms - published_ms(log.start)) / 1000,
        size_bytes=await _size(visit.services, topic_id, log),
        stop=stop,
        picture=picture_of(log, last_ms, readers, None if stop is None else stop.position),
    )


def _last_ms(end: bytes) -> int:
    """Return the time of the last entry: the end is the key after it."""
    return int.from_bytes((int.from_bytes(end[:10]) - 1).to_bytes(10)[:8]) if any(end) else 0


async def _size(services: ServerServices, topic_id: TopicId, log: TopicRange) -> int | None:
    """Return the approximate size of a topic; None if unknown."""
    if log.start >= log.end:
        return 0
    parts = await services.ranges.splits(topic_id, log.start, log.end, _PARTS)
    return sum(part.size_bytes for part in parts) or None


async def _stop(services: ServerServices, topic_id: TopicId) -> _Stop | None:
    """Return the transaction at which readers of committed messages stop, if there is one."""
    try:
        ranges = await services.ranges.ranges([topic_id], Isolation.COMMITTED)
    except TransactionsElsewhere:
        return None
    log = ranges.topics[topic_id]
    if log is None:
        return None
    position = log.end[:10] + NO_PAYLOAD_KEY
    page = await services.messaging.page(topic_id, Reading(position, 1, Isolation.COMMITTED))
    return None if page.stopped_at is None else _Stop(page.stopped_at, position)


async def change(visit: Visit) -> Answer:
    """Change the settings of a topic."""
    topic_id = visit.exchange.topic_id
    properties = settings_of(visit.form)
    await visit.services.messaging.update_topic(topic_id, properties, caller=visit.exchange.caller)
    return Done(
        place("namespaces", topic_id.namespace, "topics", topic_id.name),
        "The settings were changed.",
    )


async def trim(visit: Visit) -> Answer:
    """Trim a topic: expire its messages from before a time."""
    topic_id = visit.exchange.topic_id
    check_confirmed(visit, topic_id.name)
    before_ms = time_of(visit.form.get("before", ""))
    await visit.services.messaging.trim_topic(topic_id, before_ms, caller=visit.exchange.caller)
    return Done(
        place("namespaces", topic_id.namespace, "topics", topic_id.name), "The topic was trimmed."
    )


async def delete(visit: Visit) -> Answer:
    """Delete a topic."""
    topic_id = visit.exchange.topic_id
    check_confirmed(visit, topic_id.name)
    await visit.services.messaging.delete_topic(topic_id, caller=visit.exchange.caller)
    return Done(place("topics", namespace=topic_id.namespace), f"{topic_id} was deleted.")


_TOPIC = "/namespaces/{namespace}/topics/{topic}"
ROWS = (
    Row("Topic", _TOPIC, topic, Action.DESCRIBE),
    *(
        Row(
            f"{handler.__name__.title()}Topic",
            f"{_TOPIC}/{handler.__name__}",
            handler,
            Action.MANAGE,
            is_form=True,
        )
        for handler in (change, trim, delete)
    ),
)
