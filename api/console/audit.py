"""The newest entries of the audit, if it has a topic."""

import json
from typing import Any

from api.console.looking import Look
from api.console.row import Row
from api.console.visit import Answer, ShownPage, Visit, place
from api.http.door.guarded import DecidedBy
from tms.core.values.caller import AUDIT_TOPIC
from tms.core.values.reading import Isolation
from tms.security.resources import Action, topic_resource

_FIELDS = (
    "principal",
    "mechanism",
    "address",
    "action",
    "resource",
    "effect",
    "status",
    "operation",
    "about",
    "reason",
)
_CHARS = 200


async def audit(visit: Visit) -> Answer:
    """Show the newest entries."""
    namespace, name = AUDIT_TOPIC.namespace, AUDIT_TOPIC.name
    visit.exchange.check_access(Action.CONSUME, topic_resource(namespace, name))
    services = visit.services
    values: dict[str, Any] = {
        "entries": None,
        "fields": _FIELDS,
        "messages": place("namespaces", namespace, "topics", name, "messages"),
    }
    log = (await services.ranges.ranges([AUDIT_TOPIC], Isolation.ALL)).topics[AUDIT_TOPIC]
    if log is not None:
        look = Look(services.messaging, AUDIT_TOPIC)
        newest = await look.newest(log, visit.exchange.context.clock.now_ms())
        values["entries"] = [_entry(message.payload) for message in reversed(newest.messages)]
    return ShownPage("audit.html", values)


def _entry(line: bytes) -> dict[str, Any]:
    """Return an entry's texts by the names of its fields, and its time."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        entry = {"about": line[:_CHARS].decode(errors="replace")}
    time_ms = entry.get("time_ms")
    texts = {name: str(entry[name])[:_CHARS] for name in _FIELDS if entry.get(name) is not None}
    return {**texts, "time_ms": time_ms if isinstance(time_ms, int) else None}


ROWS = (Row("Audit", "/audit", audit, Action.CONSUME, decided_by=DecidedBy.ANSWER),)
