"""The dead letters of a group: a list of them, and forms that redrive and drop them."""

from api.console.row import Row
from api.console.visit import Answer, Done, ShownPage, Visit, place
from tms.core.errors import InvalidRequest
from tms.core.values.groups import Group
from tms.core.values.message import parse_id
from tms.security.resources import Action, topic_resource

_PAGE = 100


async def _group(visit: Visit) -> Group:
    """Return the group, whose dead letters the caller may read. Raises `NotPermitted`."""
    exchange = visit.exchange
    group = await visit.services.groups.group(exchange.topic_id, exchange.subscription)
    dead = group.settings.dead_letter
    if not dead:
        raise InvalidRequest("invalid_group", reason="the group has no topic of dead letters")
    exchange.check_access(Action.CONSUME, topic_resource(exchange.topic_id.namespace, dead))
    return group


async def dead_letters(visit: Visit) -> Answer:
    """Show a page of dead letters that are neither redriven nor dropped."""
    group = await _group(visit)
    after = visit.query.get("after")
    page = await visit.services.groups.dead_letters(
        group.topic_id, group.name, after=parse_id(after) if after else None, limit=_PAGE
    )
    resource = topic_resource(group.topic_id.namespace, group.topic_id.name)
    values = {
        "group": group,
        "topic_id": group.topic_id,
        "letters": page.letters,
        "after": after,
        "next": "" if page.next is None else page.next.hex(),
        "may_change": visit.may_change(Action.SUBSCRIBE, resource, group.name),
    }
    return ShownPage("dead_letters.html", values)


async def redrive(visit: Visit) -> Answer:
    """Redrive a dead letter, or the oldest ones, to the group."""
    group = await _group(visit)
    one = visit.form.get("id", "")
    ids, after, expired = [parse_id(one)] if one else None, None, 0
    while True:
        outcome = await visit.services.groups.redrive(
            group.topic_id, group.name, ids, after=after, limit=_PAGE
        )
        after, expired = outcome.next, expired + len(outcome.expired)
        if outcome.redriven or after is None:
            break
    notice = f"Messages redriven: {outcome.redriven}."
    if expired:
        notice += f" Messages that have expired in the topic: {expired}."
    if outcome.limited_by is not None:
        notice += " The limit of open messages is reached."
    return Done(_place(visit), notice)


async def drop(visit: Visit) -> Answer:
    """Drop a dead letter: remove it from the list."""
    group = await _group(visit)
    ids = [parse_id(visit.form.get("id", ""))]
    count = await visit.services.groups.drop_dead_letters(group.topic_id, group.name, ids)
    return Done(_place(visit), f"Dead letters dropped: {count}.")


def _place(visit: Visit) -> str:
    names = visit.names
    return place("readers", names["namespace"], names["topic"], names["subscription"], "dead")


_DEAD = "/readers/{namespace}/{topic}/{subscription}/dead"
ROWS = (
    Row("DeadLetters", _DEAD, dead_letters, Action.SUBSCRIBE),
    Row("Redrive", f"{_DEAD}/redrive", redrive, Action.SUBSCRIBE, is_form=True),
    Row("DropDeadLetter", f"{_DEAD}/drop", drop, Action.SUBSCRIBE, is_form=True),
)
