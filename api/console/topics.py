"""The lists of namespaces' topics."""

from api.console.row import Row
from api.console.visit import Answer, ShownPage, Visit
from api.http.guarded import DecidedBy
from tms.security.resources import Action

_DEFAULT_NAMESPACE = "default"
_PAGE = 100


async def topics(visit: Visit) -> Answer:
    """Show the topics of a namespace, a page of them."""
    query = visit.query
    namespace, wanted, after = (query.get(name, "") for name in ("namespace", "search", "after"))
    namespace = namespace or _DEFAULT_NAMESPACE
    names = [
        name
        for name in await visit.services.messaging.topics(namespace)
        if name > after and wanted in name and visit.may_topic(Action.DESCRIBE, namespace, name)
    ]
    values = {
        "namespace": namespace,
        "wanted": wanted,
        "after": after,
        "names": names[:_PAGE],
        "next": names[_PAGE - 1] if len(names) > _PAGE else "",
    }
    return ShownPage("topics.html", values)


ROWS = (
    Row(
        name="Topics",
        path="/topics",
        handler=topics,
        action=Action.DESCRIBE,
        decided_by=DecidedBy.ANSWER,
    ),
)
