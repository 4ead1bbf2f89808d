"""The lists of namespaces' topics, and the form that creates one."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress

from api.console.row import Row
from api.console.topic_settings import FIELDS, settings_of
from api.console.visit import Answer, Done, ShownPage, Visit, place
from api.http.door.guarded import DecidedBy
from api.http.exchange import topic_id_of
from tms.core.errors import TopicNotFound
from tms.core.values.topic import TopicMetadata, check_namespace
from tms.security.resources import Action
from tms.watch.history import TopicTraffic

DEFAULT_NAMESPACE = "default"
_PAGE = 100
_LOOKED_AT_ONCE = 500
_OLDEST_FIRST, _NEWEST_FIRST = "up", "down"
_RATES = {"messages_in": "Messages in", "bytes_in": "Bytes in", "messages_out": "Messages out"}


async def topics(visit: Visit) -> Answer:
    """Show the topics of a namespace, a page of them.

    Visitors who may operate the server can sort them by rates. Then the page has only the topics
    whose rates the watch keeps.
    """
    query = visit.query
    search, after, sort = (query.get(name, "") for name in ("search", "after", "sort"))
    namespace = check_namespace(query.get("namespace") or DEFAULT_NAMESPACE)
    is_down = sort == _NEWEST_FIRST
    rates = _rates(visit, namespace)
    by_rate = sort if rates is not None and sort in _RATES else ""
    matching: Iterable[str]
    if rates is not None and by_rate:
        by_name = {name: getattr(rate, by_rate) for name, rate in rates.items() if search in name}
        matching = sorted(by_name, key=lambda name: (-by_name[name], name))
    else:
        every = sorted(await visit.services.messaging.topics(namespace), reverse=is_down)
        matching = [
            name
            for name in every
            if search in name and (not after or (name < after if is_down else name > after))
        ]
    names = await _first_seen(visit, namespace, matching)
    kept = {"namespace": namespace, "search": search}
    last = names[_PAGE - 1] if len(names) > _PAGE and not by_rate else ""
    values = {
        "namespace": namespace,
        "search": search,
        "is_down": is_down,
        "rates": rates,
        "by_rate": by_rate,
        "by": {label: (name, place("topics", **kept, sort=name)) for name, label in _RATES.items()},
        "topics": await _described(visit, namespace, names[:_PAGE]),
        "first": place("topics", **kept, sort=sort) if after else "",
        "next": place("topics", **kept, sort=sort, after=last) if last else "",
        "other": place("topics", **kept, sort=_OLDEST_FIRST if is_down else _NEWEST_FIRST),
        "may_create": visit.may_create_in(namespace),
        "fields": FIELDS,
    }
    return ShownPage("topics.html", values)


def _rates(visit: Visit, namespace: str) -> Mapping[str, TopicTraffic] | None:
    """Return the latest rates of the busiest topics; None if the visitor may not operate."""
    if not visit.may(Action.OPERATE):
        return None
    return visit.exchange.context.watch.history.latest(namespace)


async def _first_seen(visit: Visit, namespace: str, names: Iterable[str]) -> list[str]:
    """Return the first names that the visitor may see, one more than a page has."""
    seen: list[str] = []
    for count, name in enumerate(names):
        if visit.may_topic(Action.DESCRIBE, namespace, name):
            seen.append(name)
            if len(seen) > _PAGE:
                break
        if count % _LOOKED_AT_ONCE == _LOOKED_AT_ONCE - 1:
            await asyncio.sleep(0)
    return seen


async def _described(visit: Visit, namespace: str, names: Iterable[str]) -> list[TopicMetadata]:
    """Return topics, without those that were deleted in the meantime."""
    described: list[TopicMetadata] = []
    for name in names:
        with suppress(TopicNotFound):
            described.append(await visit.services.messaging.topic(topic_id_of(namespace, name)))
    return described


async def create(visit: Visit) -> Answer:
    """Create a topic."""
    exchange = visit.exchange
    topic_id = exchange.topic_of(visit.form.get("name", ""))
    await exchange.touches(Action.MANAGE, [topic_id])
    properties = settings_of(visit.form)
    if exchange.use is not None:
        exchange.use.take_topic()
    await visit.services.messaging.create_topic(topic_id, properties, caller=exchange.caller)
    return Done(
        place("namespaces", topic_id.namespace, "topics", topic_id.name), "The topic was created."
    )


ROWS = (
    Row("Topics", "/topics", topics, Action.DESCRIBE, decided_by=DecidedBy.ANSWER),
    Row(
        "CreateTopic",
        "/namespaces/{namespace}/topics",
        create,
        Action.MANAGE,
        decided_by=DecidedBy.BODY,
        is_form=True,
    ),
)
