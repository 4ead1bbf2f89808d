"""Why a principal may or may not do something, and who the caller is. Answers are JSON."""

import msgspec

from api.http.door.guarded import DecidedBy
from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import Operation
from api.http.query_parameters import values_of
from api.openapi.parts import json_content, query_text
from api.openapi.structs import schemas_of
from api.resources.grants import LIST_ERRORS, RULE, TAG, body_of, grants_of, one_of
from tms.security.explanations import explained, resource_of
from tms.security.resources import ACTIONS_OF, SERVER, Action, Kind
from tms.security.rules import Identity
from tms.wire.json_grants import CallerBody, RulingBody

_encode = msgspec.json.Encoder().encode


async def explain(exchange: Exchange) -> None:
    """Answer with whether a principal may do something, and why."""
    grants, values = grants_of(exchange), values_of(exchange.query)
    exchange.about = " ".join(f"{name}={value}" for name, value in values.items())
    groups = frozenset(filter(None, values.get("groups", "").split(",")))
    identity = Identity(values.get("principal", ""), groups)
    action = one_of(Action, values.get("action", ""), "action")
    names = (values.get("topic") or None, values.get("subject") or None)
    resource = resource_of(action, values.get("namespace", "default"), *names)
    explanation = explained(grants.book, identity, action, resource, values.get("subscription"))
    ruling = explanation.ruling
    rule = None if ruling.rule is None else body_of(ruling.rule)
    body = RulingBody(ruling.is_allowed, explanation.reason, rule)
    await exchange.answer(OK, _encode(body), JSON_TYPE)


async def whoami(exchange: Exchange) -> None:
    """Answer with the caller's principal."""
    session = None if exchange.admission is None else exchange.admission.session
    if session is None:
        may = sorted(ACTIONS_OF[Kind.SERVER])
        body = CallerBody(None, [], None, list(may))
    else:
        may = [each for each in sorted(ACTIONS_OF[Kind.SERVER]) if exchange.may(each, SERVER)]
        groups = sorted(session.identity.groups)
        body = CallerBody(session.identity.principal, groups, session.mechanism, list(may))
    await exchange.answer(OK, _encode(body), JSON_TYPE)


_SCHEMAS = schemas_of({"Ruling": RulingBody, "Caller": CallerBody}, answered=True)
_RULING = {
    "allowed": True,
    "reason": "shop may publish on default:orders, by rule 0f3a5c7e9b1d.",
    "rule": RULE,
}
_CALLER = {"principal": "shop", "groups": [], "mechanism": "token", "may": ["transact"]}


_EXPLAIN_QUERY = (
    query_text("principal", "The name of the principal."),
    query_text("groups", "The groups of the principal, separated by commas."),
    query_text("action", "The action."),
    query_text("namespace", "The namespace of the topic; by default `default`."),
    query_text("topic", "The topic; without it, all topics of the namespace."),
    query_text("subscription", "The subscription, for the action `subscribe`."),
    query_text("subject", "The subject of the registry; without it, all subjects."),
)
OPERATIONS = (
    Operation(
        name="explainAccess",
        action=Action.GRANT,
        method="GET",
        path="/v1/auth/explain",
        handler=explain,
        tag=TAG,
        summary="Show whether a principal may do something, and why",
        description="The answer follows the current rules. Nothing is done.",
        query=_EXPLAIN_QUERY,
        success="The decision.",
        answer=json_content(_SCHEMAS["Ruling"], allowed=_RULING),
        errors=("invalid_rule", "invalid_query", *LIST_ERRORS),
    ),
    Operation(
        name="whoAmI",
        action=Action.DESCRIBE,
        decided_by=DecidedBy.ANSWER,
        method="GET",
        path="/v1/auth/whoami",
        handler=whoami,
        tag=TAG,
        summary="Show who the caller is",
        description="The answer has the caller's principal, which is null without authentication.",
        success="The caller.",
        answer=json_content(_SCHEMAS["Caller"], caller=_CALLER),
    ),
)
