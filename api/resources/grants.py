"""Rules and tokens of access control. Bodies and answers are JSON."""

from collections.abc import Mapping
from functools import partial
from typing import TypeVar

import msgspec

from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import JSON_ERRORS, Json, Operation
from api.http.request_body import SMALL_BODY_BYTES_MAX, read_body
from api.openapi.parts import json_content
from api.openapi.structs import schemas_of
from tms.core.errors import AuthenticationOff, InvalidRequest
from tms.core.limits import JSON_INTEGER_MAX
from tms.security.grants import Grants, with_id
from tms.security.principals import reason_against, reason_against_groups
from tms.security.resources import (
    SERVER,
    Action,
    Kind,
)
from tms.security.rules import ANY, GROUP, Effect, Identity, InvalidRule, Rule
from tms.security.tokens import KeptToken, new_token
from tms.wire.json_grants import (
    NewTokenBody,
    RuleBody,
    RuleRequest,
    TokenBody,
    TokenRequest,
)
from tms.wire.json_values import decode

RULES = "/v1/auth/rules"
TOKENS = "/v1/auth/tokens"
TAG = "Access"
B = TypeVar("B")
E = TypeVar("E", Action, Effect, Kind)
_encode = msgspec.json.Encoder().encode


def grants_of(exchange: Exchange) -> Grants:
    """Return the rules and tokens. Raises `AuthenticationOff` if there is no access control."""
    access = exchange.context.access
    if access is None:
        raise AuthenticationOff
    return access.grants


async def _read(exchange: Exchange, kind: type[B], code: str) -> B:
    exchange.check_only_json()
    body = await read_body(exchange, SMALL_BODY_BYTES_MAX)
    return decode(kind, body, code=code)


def one_of(kind: type[E], name: str, field: str) -> E:
    """Return a value by its name. Raises `InvalidRequest` (invalid_rule)."""
    try:
        return kind(name)
    except ValueError:
        expected = ", ".join(each.value for each in kind)
        raise InvalidRequest("invalid_rule", field=field, given=name, expected=expected) from None


def _rule_of(request: RuleRequest) -> Rule:
    is_name = request.who != ANY
    against = reason_against(request.who.removeprefix(GROUP)) if is_name else None
    if against is not None and request.who != "anonymous":
        raise InvalidRequest("invalid_rule", field="who", reason=against)
    try:
        return Rule(
            "",
            request.who,
            one_of(Effect, request.effect, "effect"),
            frozenset(one_of(Action, action, "actions") for action in request.actions),
            one_of(Kind, request.kind, "kind"),
            request.namespace,
            request.name,
            request.subscription,
        )
    except InvalidRule as error:
        raise InvalidRequest("invalid_rule", reason=str(error)) from None


def body_of(rule: Rule) -> RuleBody:
    """Return the JSON body of a rule."""
    return RuleBody(
        rule.id,
        rule.who,
        rule.effect,
        sorted(rule.actions),
        rule.kind,
        rule.namespace,
        rule.name,
        rule.subscription,
    )


async def list_rules(exchange: Exchange) -> None:
    """Answer with all rules."""
    rules = sorted(grants_of(exchange).rules, key=lambda rule: (rule.who, rule.id))
    await exchange.answer_tagged(_encode([body_of(rule) for rule in rules]))


async def add_rule(exchange: Exchange) -> None:
    """Add a rule; it applies at once."""
    grants = grants_of(exchange)
    rule = with_id(_rule_of(await _read(exchange, RuleRequest, "invalid_rule")))
    exchange.about = f"rule {rule.id}: {rule}"
    await exchange.answer(OK, _encode(body_of(await grants.add_rule(rule))), JSON_TYPE)


async def remove_rule(exchange: Exchange) -> None:
    """Remove a rule."""
    grants, rule_id = grants_of(exchange), exchange.names["id"]
    rule = grants.rule(rule_id)
    exchange.about = f"rule {rule_id}" if rule is None else f"rule {rule_id}: {rule}"
    await grants.remove_rule(rule_id)
    await exchange.answer(OK)


async def list_tokens(exchange: Exchange) -> None:
    """Answer with the tokens, without their secrets."""
    grants = grants_of(exchange)
    tokens = sorted(grants.tokens.values(), key=lambda token: (token.principal, token.id))
    bodies = [
        TokenBody(
            each.id,
            each.principal,
            sorted(each.groups),
            each.expires_ms,
            grants.is_setting(each.id),
        )
        for each in tokens
    ]
    await exchange.answer(OK, _encode(bodies), JSON_TYPE)


async def add_token(exchange: Exchange) -> None:
    """Create a token; only this answer has it."""
    grants = grants_of(exchange)
    request = await _read(exchange, TokenRequest, "invalid_token")
    against = reason_against(request.principal) or reason_against_groups(request.groups)
    if against is not None:
        raise InvalidRequest("invalid_token", reason=against)
    exchange.about = f"a token of {request.principal}"
    _check_superuser(exchange, grants, request.principal)
    ends_ms, now_ms = request.expires_ms, exchange.context.clock.keys_ms()
    if ends_ms is not None and not now_ms < ends_ms <= JSON_INTEGER_MAX:
        raise InvalidRequest("invalid_token", expires_ms=ends_ms)
    token, kept = new_token(request.principal, frozenset(request.groups), request.expires_ms)
    exchange.about = _told(kept)
    await grants.add_token(kept)
    body = NewTokenBody(kept.id, token, kept.principal, kept.expires_ms)
    await exchange.answer(OK, _encode(body), JSON_TYPE)


def _told(token: KeptToken) -> str:
    """Describe a token for the audit."""
    groups = f", in {', '.join(sorted(token.groups))}" if token.groups else ""
    return f"token {token.id} of {token.principal}{groups}"


def _check_superuser(exchange: Exchange, grants: Grants, principal: str) -> None:
    """Let only superusers make and revoke tokens of superusers; the right to grant is not enough.

    Raises `NotPermitted`.
    """
    asks = exchange.caller.principal or ""
    is_one, is_of_one = (grants.book.is_superuser(Identity(who)) for who in (asks, principal))
    if is_of_one and not is_one:
        access = exchange.context.access
        assert access is not None, "there are grants"
        access.refuse(exchange, Action.GRANT, SERVER)


async def remove_token(exchange: Exchange) -> None:
    """Revoke a token."""
    grants, token_id = grants_of(exchange), exchange.names["id"]
    if grants.is_setting(token_id):
        reason = "the server's setting auth_tokens defines it: remove it there"
        raise InvalidRequest("invalid_token", id=token_id, reason=reason)
    token = await grants.token_now(token_id)
    exchange.about = f"token {token_id}" if token is None else _told(token)
    if token is not None:
        _check_superuser(exchange, grants, token.principal)
    await grants.remove_token(token_id)
    await exchange.answer(OK)


_SCHEMAS = schemas_of(
    {
        "Rule": RuleBody,
        "Token": TokenBody,
        "NewToken": NewTokenBody,
    },
    answered=True,
)
_ASKED = schemas_of({"Rule": RuleRequest, "Token": TokenRequest}, answered=False)
_RULE_ASKED = {"who": "shop", "actions": ["publish"], "namespace": "default", "name": "orders*"}
RULE = {
    "id": "0f3a5c7e9b1d",
    "effect": "allow",
    "kind": "topic",
    "subscription": "*",
    **_RULE_ASKED,
}
_TOKEN = {"id": "abcdefghijkl", "principal": "shop", "expires_ms": None}
_TOLD_TOKEN: Json = {**_TOKEN, "groups": [], "is_setting": False}
_NEW_TOKEN = {**_TOKEN, "token": f"tms_abcdefghijkl_{'x' * 43}"}


def _listed(name: str, example: object) -> Mapping[str, Json]:
    array = {"type": "array", "items": _SCHEMAS[name]}
    return json_content(array, all=[example])


LIST_ERRORS = ("authentication_off", "not_found")
_CHANGE_ERRORS = ("no_metadata_store", "metadata_unavailable", "metadata_closed", *LIST_ERRORS)

_row = partial(Operation, action=Action.GRANT, tag=TAG)
_get, _post, _delete = (partial(_row, method=each) for each in ("GET", "POST", "DELETE"))
OPERATIONS = (
    _get(
        name="listRules",
        path=RULES,
        handler=list_rules,
        is_tagged=True,
        summary="List the rules",
        description="They are in the order of the names that they apply to.",
        success="The current rules.",
        answer=_listed("Rule", RULE),
        errors=LIST_ERRORS,
    ),
    _post(
        name="addRule",
        path=RULES,
        handler=add_rule,
        summary="Allow or deny actions",
        description=(
            "The rule applies at this server when it answers, and at other servers within a "
            "second. Equal rules have the same id, so sending one twice changes nothing."
        ),
        request=json_content(_ASKED["Rule"], rule=_RULE_ASKED),
        success="The rule, with its id.",
        answer=json_content(_SCHEMAS["Rule"], rule=RULE),
        errors=("invalid_rule", "too_many_rules", *_CHANGE_ERRORS, *JSON_ERRORS),
    ),
    _delete(
        name="removeRule",
        path=f"{RULES}/{{id}}",
        handler=remove_rule,
        summary="Remove a rule",
        description="Decisions that used the rule are made again; waiting polls that it allowed "
        "end within 5 s.",
        success="The rule no longer applies.",
        errors=("rule_not_found", *_CHANGE_ERRORS),
    ),
    _get(
        name="listTokens",
        path=TOKENS,
        handler=list_tokens,
        summary="List the tokens",
        description="The answer has their ids and principals, but never the tokens themselves.",
        success="The tokens that are valid, and those that have expired.",
        answer=_listed("Token", _TOLD_TOKEN),
        errors=LIST_ERRORS,
    ),
    _post(
        name="addToken",
        path=TOKENS,
        handler=add_token,
        summary="Create a token",
        description="Only this answer shows the token, because the server stores only its hash.",
        request=json_content(_ASKED["Token"], token={"principal": "shop"}),
        success="The token.",
        answer=json_content(_SCHEMAS["NewToken"], token=_NEW_TOKEN),
        errors=("invalid_token", "too_many_tokens", *_CHANGE_ERRORS, *JSON_ERRORS),
    ),
    _delete(
        name="removeToken",
        path=f"{TOKENS}/{{id}}",
        handler=remove_token,
        summary="Revoke a token",
        description="Requests with the token get 401 from now on; its waiting polls end within 5 "
        "s.",
        success="The token is no longer valid.",
        errors=("invalid_token", "token_not_found", *_CHANGE_ERRORS),
    ),
)
