"""One reader: its position, its members and open messages, a pause, and a move."""

from api.console.charts import Chart
from api.console.row import Row
from api.console.times import time_of
from api.console.typed import check_confirmed
from api.console.visit import Answer, Done, ShownPage, Visit, place
from tms.core.errors import InvalidRequest, SubscriptionIsShared, TopicNotFound
from tms.core.values.groups import Position, SeekTo
from tms.core.values.message import ID_BYTES, first_id_at, id_before, parse_id
from tms.core.values.reading import Isolation
from tms.core.values.subscriptions import Advance
from tms.core.values.topic import TopicId
from tms.security.resources import Action, topic_resource
from tms.watch.lag_history import LagPoints

_PAGE = 100
_MEMBERS_SHOWN = 100


async def reader(visit: Visit) -> Answer:
    """Show a subscription, or a group."""
    exchange = visit.exchange
    topic_id, name = exchange.topic_id, exchange.subscription
    resource = topic_resource(topic_id.namespace, topic_id.name)
    lags = await exchange.context.watch.lags()
    own = (topic_id.namespace, topic_id.name, name)
    points = exchange.context.watch.lag_history.of(own)
    values: dict[str, object] = {
        "topic_id": topic_id,
        "name": name,
        "may_change": visit.may_change(Action.SUBSCRIBE, resource, name),
        "lag": next((e for e in lags if (e.namespace, e.topic, e.name) == own), None),
        "group": None,
        "position": None,
        "charts": [] if points is None else _charts(points),
    }
    services = visit.services
    try:
        values["position"] = await services.subscriptions.subscription(topic_id, name)
    except SubscriptionIsShared:
        after = visit.query.get("after")
        opened = await services.groups.open_messages(
            topic_id, name, after=parse_id(after) if after else None, limit=_PAGE + 1
        )
        members = await services.groups.members(topic_id, name)
        values |= {
            "group": await services.groups.group(topic_id, name),
            "members": members[:_MEMBERS_SHOWN],
            "more_members": max(0, len(members) - _MEMBERS_SHOWN),
            "open": opened[:_PAGE],
            "after": after,
            "next": opened[_PAGE - 1].id.hex() if len(opened) > _PAGE else "",
        }
    return ShownPage("reader.html", values)


def _charts(points: LagPoints) -> list[Chart]:
    times = points.times_ms
    return [
        Chart("Messages behind", "", times, [("messages", points.messages)], points_per_row=1),
        Chart("Age of the oldest", "s", times, [("age", points.seconds)], points_per_row=1),
    ]


async def pause(visit: Visit) -> Answer:
    """Pause or resume a group."""
    exchange = visit.exchange
    is_paused = visit.form.get("paused") == "true"
    await visit.services.groups.set_group(
        exchange.topic_id, exchange.subscription, {"paused": is_paused}
    )
    return Done(_place(visit), "The group was paused." if is_paused else "The group was resumed.")


async def move(visit: Visit) -> Answer:
    """Move the position of a subscription, or the place where a group continues."""
    exchange = visit.exchange
    topic_id, name = exchange.topic_id, exchange.subscription
    check_confirmed(visit, name)
    to = _position_of(visit)
    services = visit.services
    try:
        position = await services.subscriptions.subscription(topic_id, name)
    except SubscriptionIsShared:
        await services.groups.seek(topic_id, name, to)
    else:
        after = await _after(visit, topic_id, to)
        await services.subscriptions.advance(Advance(topic_id, name, after, position.version))
    return Done(_place(visit), "The reader was moved.")


def _position_of(visit: Visit) -> Position:
    """Return the position that a form names. Raises `InvalidRequest`."""
    to, value = visit.form.get("to", ""), visit.form.get("value", "").strip()
    if to in (SeekTo.START, SeekTo.END):
        return SeekTo(to)
    if to == "time":
        return time_of(value)
    if to == "id":
        return parse_id(value)
    raise InvalidRequest("invalid_body", reason="`to` is not one of start, end, time and id")


async def _after(visit: Visit, topic_id: TopicId, to: Position) -> bytes:
    """Return the id after which a subscription of one reader continues."""
    if isinstance(to, SeekTo):
        ranges = await visit.services.ranges.ranges((topic_id,), Isolation.ALL)
        whole = ranges.topics[topic_id]
        if whole is None:
            raise TopicNotFound(topic=str(topic_id))
        position = whole.start if to is SeekTo.START else whole.end
    elif isinstance(to, int):
        position = first_id_at(to)
    else:
        return to
    return id_before(position) if any(position) else bytes(ID_BYTES)


def _place(visit: Visit) -> str:
    names = visit.names
    return place("readers", names["namespace"], names["topic"], names["subscription"])


_ONE = "/readers/{namespace}/{topic}/{subscription}"
ROWS = (
    Row("Reader", _ONE, reader, Action.SUBSCRIBE),
    Row("PauseGroup", f"{_ONE}/pause", pause, Action.SUBSCRIBE, is_form=True),
    Row("MoveReader", f"{_ONE}/move", move, Action.SUBSCRIBE, is_form=True),
)
