"""The scheduled messages of a topic: a list of them, and a form that cancels one."""

from api.console.payload_forms import Form, shown_headers, shown_payload
from api.console.row import Row
from api.console.shown import payload as as_text
from api.console.visit import Answer, Done, ShownPage, Visit, place
from tms.core.values.schedules import place_of
from tms.security.resources import Action

_PAGE = 100
_PAYLOAD_CHARS, _KEY_CHARS, _HEADERS_CHARS = 240, 60, 120


async def scheduled(visit: Visit) -> Answer:
    """Show a page of messages that will be published later."""
    topic_id = visit.exchange.topic_id
    after = visit.query.get("after")
    listed = await visit.services.schedules.scheduled(topic_id, after or None, _PAGE)
    rows = [
        (
            each,
            None if each.message.key is None else as_text(each.message.key, _KEY_CHARS),
            shown_headers(each.message, _HEADERS_CHARS),
            shown_payload(each.message, Form.TEXT, _PAYLOAD_CHARS),
        )
        for each in listed
    ]
    values = {
        "topic_id": topic_id,
        "rows": rows,
        "after": after,
        "next": listed[-1].id if len(listed) == _PAGE else "",
        "may_cancel": visit.may_change_topic(Action.PUBLISH, topic_id.namespace, topic_id.name),
        "topic_place": place("namespaces", topic_id.namespace, "topics", topic_id.name),
    }
    return ShownPage("scheduled.html", values)


async def cancel(visit: Visit) -> Answer:
    """Cancel a message."""
    topic_id, exchange = visit.exchange.topic_id, visit.exchange
    scheduled_id = place_of(visit.form.get("id", "")).id
    exchange.about = f"scheduled message {scheduled_id}"
    await visit.services.schedules.cancel_scheduled(topic_id, scheduled_id, caller=exchange.caller)
    here = place("namespaces", topic_id.namespace, "topics", topic_id.name, "scheduled")
    return Done(here, "The message will not be published.")


_SCHEDULED = "/namespaces/{namespace}/topics/{topic}/scheduled"
ROWS = (
    Row("Scheduled", _SCHEDULED, scheduled, Action.CONSUME),
    Row("CancelScheduled", f"{_SCHEDULED}/cancel", cancel, Action.PUBLISH, is_form=True),
)
