"""Access: the visitor's identity, the rules, the tokens without secrets, and a check of rights."""

from collections.abc import Mapping

from api.console.first import Listed, first_of
from api.console.row import Row
from api.console.visit import Answer, ShownPage, Visit
from api.http.door.guarded import DecidedBy
from tms.core.errors import InvalidRequest
from tms.core.values.caller import AUDIT_TOPIC
from tms.security.explanations import Explanation, explained, resource_of
from tms.security.grants import Grants
from tms.security.resources import ACTIONS_OF, SERVER, Action
from tms.security.rules import Identity

_BETWEEN = "\x00"
"""Separates the parts of a key of a list: no name contains it."""
_NOTHING = Listed([], "")


async def access(visit: Visit) -> Answer:
    """Show the rules and the tokens."""
    control, query = visit.exchange.context.access, visit.query
    if control is None:
        return ShownPage("access.html", {"is_off": True})
    grants = control.grants
    may_see = visit.may(Action.GRANT)
    rules = tokens = _NOTHING
    if may_see:
        rules = await first_of(
            list(grants.rules),
            lambda rule: f"{rule.who}{_BETWEEN}{rule.id}",
            query.get("rules", ""),
        )
        tokens = await first_of(
            list(grants.tokens.values()),
            lambda token: f"{token.principal}{_BETWEEN}{token.id}",
            query.get("tokens", ""),
        )
    admission = visit.exchange.admission
    session = None if admission is None else admission.session
    values = {
        "is_off": False,
        "identity": None if session is None else session.identity,
        "own_actions": [each for each in sorted(ACTIONS_OF[SERVER.kind]) if visit.may(each)],
        "may_see": may_see,
        "rules": rules,
        "tokens": tokens,
        "is_setting": grants.is_setting,
        "query": query,
        "actions": list(Action),
        "explanation": _explained(grants, query) if may_see else None,
        "may_audit": visit.may_topic(Action.CONSUME, AUDIT_TOPIC.namespace, AUDIT_TOPIC.name),
    }
    return ShownPage("access.html", values)


def _explained(grants: Grants, query: Mapping[str, str]) -> Explanation | None:
    """Return whether a principal may do something; None if the query names none."""
    principal = query.get("principal", "").strip()
    if not principal:
        return None
    action_name = query.get("action", "")
    if action_name not in set(Action):
        raise InvalidRequest("invalid_query", action=action_name[:100])
    groups = frozenset(filter(None, map(str.strip, query.get("groups", "").split(","))))
    action, namespace = Action(action_name), query.get("namespace", "") or "default"
    names = query.get("topic") or None, query.get("subject") or None
    subscription = query.get("subscription") or None
    resource = resource_of(action, namespace, *names)
    return explained(grants.book, Identity(principal, groups), action, resource, subscription)


ROWS = (Row("Access", "/access", access, Action.DESCRIBE, decided_by=DecidedBy.ANSWER),)
