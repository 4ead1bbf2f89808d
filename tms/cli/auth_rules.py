"""`tms auth grant`, `revoke`, `list`, `explain`, `token`, …: rules and tokens of a server.

Only `token` prints a secret, and nothing else, so that its output can go into a file.
"""

import difflib
import sys
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar
from urllib.parse import urlencode

import msgspec
import typer

from tms.cli.columns import aligned
from tms.cli.durations import duration
from tms.cli.failure import stop
from tms.cli.target import Target, with_target
from tms.core.runtime.clock import SystemClock
from tms.security.resources import ACTIONS_OF, Action, Kind
from tms.wire.json_grants import (
    CallerBody,
    NewTokenBody,
    RuleBody,
    RuleRequest,
    RulingBody,
    TokenBody,
    TokenRequest,
)
from tms.wire.json_values import decode_answer
from tms.wire.media_types import JSON_TYPE

B = TypeVar("B")
app = typer.Typer(rich_markup_mode=None)
GRANT_EXAMPLES = """\b
Examples:
  tms auth grant shop publish,describe 'default:orders*'
  tms auth grant group:billing consume,subscribe default:orders --subscription 'billing.*'
  tms auth grant '*' transact server
  tms auth grant shop write,read 'subject:orders-*'
  tms auth grant mallory publish '*:*' --deny"""
_MAKING = """\b
Examples:
  tms auth token shop > shop.token
  tms auth token ci --expires 90d --group deploy > ci.token"""

_RULES, _TOKENS = "v1/auth/rules", "v1/auth/tokens"
_MS_PER_S = 1000
_WHAT = "NAMESPACE:TOPIC, server, or subject:NAME; a prefix ends with *."
_SUBJECT, _SERVER = "subject:", "server"

WhoArgument = Annotated[
    str,
    typer.Argument(
        metavar="WHO", help="A principal, group:NAME, or '*' for all authenticated callers."
    ),
]
PrincipalArgument = Annotated[
    str, typer.Argument(metavar="PRINCIPAL", help="The name of the principal.")
]
ActionsArgument = Annotated[
    str,
    typer.Argument(
        metavar="ACTIONS", help="Some of " + ", ".join(sorted(Action)) + "; with commas."
    ),
]
ActionArgument = Annotated[str, typer.Argument(metavar="ACTION", help="The action.")]
WhatArgument = Annotated[str, typer.Argument(metavar="WHAT", help=_WHAT)]
IdsArgument = Annotated[
    list[str], typer.Argument(metavar="ID...", help="The ids of rules or tokens.")
]
DenyOption = Annotated[
    bool, typer.Option("--deny", help="Deny it, even if another rule allows it.")
]
SubscriptionOption = Annotated[
    str,
    typer.Option(
        "--subscription", metavar="PATTERN", help="Only subscriptions with matching names."
    ),
]
GroupOption = Annotated[
    list[str] | None, typer.Option("--group", metavar="NAME", help="A group of the principal.")
]
WhoOption = Annotated[str, typer.Option("--who", metavar="WHO", help="Only rules for this name.")]
ExpiresOption = Annotated[
    float | None,
    duration("--expires", help_text="How long the token is valid.", show_default=False),
]


@app.command(epilog=GRANT_EXAMPLES)
@with_target
def grant(
    target: Target,
    who: WhoArgument,
    actions: ActionsArgument,
    what: WhatArgument,
    *,
    deny: DenyOption = False,
    subscription: SubscriptionOption = "*",
) -> None:
    """Allow or deny actions to a caller; the rule applies when the command returns."""
    kind, namespace, name = _place(what)
    effect = "deny" if deny else "allow"
    chosen = _actions(actions, kind)
    request = RuleRequest(who, chosen, effect, kind.value, namespace, name, subscription)
    rule = _send(target, "POST", _RULES, RuleBody, request)
    target.answer(f"Rule {rule.id}: {_told(rule)}.", rule)


@app.command()
@with_target
def revoke(target: Target, ids: IdsArgument) -> None:
    """Remove rules or tokens, each by its id."""
    rules = {rule.id for rule in _send(target, "GET", _RULES, list[RuleBody])}
    for rule_id in ids:
        path = _RULES if rule_id in rules else _TOKENS
        _send(target, "DELETE", f"{path}/{_safe(rule_id)}", None)
    target.answer(f"Revoked {', '.join(ids)}.", {"revoked": ids})


@app.command("list")
@with_target
def list_rules(target: Target, who: WhoOption = "") -> None:
    """List the rules."""
    listed = _send(target, "GET", _RULES, list[RuleBody])
    rules = [rule for rule in listed if who in ("", rule.who)]
    rows = [
        (rule.id, rule.who, rule.effect, ",".join(rule.actions), _shown(rule)) for rule in rules
    ]
    text = aligned(("ID", "WHO", "EFFECT", "ACTIONS", "WHAT"), rows) if rows else "No rules."
    target.answer(text, rules)


@app.command()
@with_target
def explain(
    target: Target,
    principal: PrincipalArgument,
    action: ActionArgument,
    what: WhatArgument,
    *,
    group: GroupOption = None,
    subscription: SubscriptionOption = "",
) -> None:
    """Show whether a caller may do something, and which rule decides it."""
    kind, namespace, name = _place(what)
    [chosen] = _actions(action, kind)
    query = {"principal": principal, "action": chosen, "groups": ",".join(group or [])}
    if kind is Kind.TOPIC:
        query |= {"namespace": namespace, **({} if name == "*" else {"topic": name})}
    elif kind is Kind.SUBJECT and name != "*":
        query["subject"] = name
    if subscription:
        query["subscription"] = subscription
    ruling = _send(target, "GET", f"v1/auth/explain?{urlencode(query)}", RulingBody)
    rule = "" if ruling.rule is None else f"\n{ruling.rule.id}: {_told(ruling.rule)}"
    target.answer(f"{ruling.reason}{rule}", ruling)


@app.command(epilog=_MAKING)
@with_target
def token(
    target: Target,
    principal: PrincipalArgument,
    group: GroupOption = None,
    expires: ExpiresOption = None,
) -> None:
    """Create a token and print it. It is shown only once, because the server stores only a hash."""
    ends_ms = None if expires is None else SystemClock().now_ms() + int(expires * _MS_PER_S)
    made = _send(
        target, "POST", _TOKENS, NewTokenBody, TokenRequest(principal, group or [], ends_ms)
    )
    print(
        f"Token {made.id} of {principal}{_until(made.expires_ms)}. Keep it where only its user "
        "reads it, and name the file in TMS_TOKEN_FILE.",
        file=sys.stderr,
    )
    target.answer(made.token, made)


@app.command()
@with_target
def tokens(target: Target) -> None:
    """List the tokens, with their principals and expiry times, but never the tokens themselves."""
    listed = _send(target, "GET", _TOKENS, list[TokenBody])
    rows = [
        (
            each.id,
            each.principal,
            ",".join(each.groups) or "-",
            "never" if each.expires_ms is None else _day(each.expires_ms),
            "settings" if each.is_setting else "-",
        )
        for each in listed
    ]
    text = aligned(("ID", "PRINCIPAL", "GROUPS", "ENDS", "FROM"), rows) if rows else "No tokens."
    target.answer(text, listed)


@app.command()
@with_target
def whoami(target: Target) -> None:
    """Show your principal, as the server sees it."""
    caller = _send(target, "GET", "v1/auth/whoami", CallerBody)
    if caller.principal is None:
        target.answer("Authentication is off at this server.", caller)
        return
    groups = f", in {', '.join(caller.groups)}" if caller.groups else ""
    may = f"; may {', '.join(caller.may)} at the server" if caller.may else ""
    target.answer(f"{caller.principal}{groups}, by {caller.mechanism or 'nothing'}{may}", caller)


def _send(
    target: Target, method: str, path: str, kind: Any, request: msgspec.Struct | None = None
) -> Any:
    body = b"" if request is None else msgspec.json.encode(request)
    answer = target.ask(method, path, body, JSON_TYPE if body else None)
    return None if kind is None else decode_answer(kind, answer)


def _safe(text: str) -> str:
    if not text.isalnum() or not text.isascii():
        stop(f"{text!r} is not a valid id: `tms auth list` and `tms auth tokens` show the ids.")
    return text


def _place(what: str) -> tuple[Kind, str, str]:
    """Return the kind, namespace and name of the resource of a rule."""
    if what == _SERVER:
        return Kind.SERVER, "", ""
    if what.startswith(_SUBJECT) and len(what) > len(_SUBJECT):
        return Kind.SUBJECT, "", what.removeprefix(_SUBJECT)
    namespace, colon, name = what.partition(":")
    if not (namespace and colon and name):
        stop(f"{what!r} cannot have rules. Give {_WHAT}")
    return Kind.TOPIC, namespace, name


def _actions(text: str, kind: Kind) -> list[str]:
    """Return the actions in a list with commas; an unknown one ends the command."""
    chosen = [each.strip() for each in text.split(",") if each.strip()]
    may_be = sorted(action.value for action in ACTIONS_OF[kind])
    for each in chosen:
        if each not in may_be:
            close = difflib.get_close_matches(each, may_be, n=1)
            meant = f"; do you mean {close[0]}?" if close else "."
            stop(
                f"{each!r} is not an action on a {kind}{meant} The actions are {', '.join(may_be)}."
            )
    if not chosen:
        stop(f"Name an action: {', '.join(may_be)}.")
    return chosen


def _shown(rule: RuleBody) -> str:
    place = {"server": _SERVER, "subject": f"{_SUBJECT}{rule.name}"}
    shown = place.get(rule.kind, f"{rule.namespace}:{rule.name}")
    return shown if rule.subscription == "*" else f"{shown} (subscriptions {rule.subscription})"


def _told(rule: RuleBody) -> str:
    may = "may" if rule.effect == "allow" else "may not"
    return f"{rule.who} {may} {', '.join(rule.actions)} on {_shown(rule)}"


def _day(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / _MS_PER_S, UTC).strftime("%Y-%m-%d %H:%MZ")


def _until(expires_ms: int | None) -> str:
    return "" if expires_ms is None else f", until {_day(expires_ms)}"
