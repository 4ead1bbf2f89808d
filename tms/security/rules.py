"""Rules, each of which allows or denies somebody actions on some resources.

    rule     := principal | group:NAME | *,  allow | deny,  actions,  what
    what     := namespace pattern, topic pattern [, subscription pattern] | subject pattern | server
    pattern  := literal | prefix* | *

1. Deny beats allow, and what no rule allows is denied. The order of rules means nothing.
2. A rule with a subscription pattern is for subscriptions of such names alone.
3. All of a namespace is matched by topic pattern `*` only.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tms.security.resources import ACTIONS_OF, Action, Kind, Resource

EVERYBODY = "*"
GROUP = "group:"
ANY = "*"
_NAME_CHARS_MAX = 255


class InvalidRule(ValueError):
    """Raised for a rule that means nothing; it says what is expected."""


class Effect(StrEnum):
    """What a rule does."""

    ALLOW = "allow"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody who was authenticated."""

    principal: str
    groups: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which rules may be for it."""
        return (self.principal, *(f"{GROUP}{each}" for each in sorted(self.groups)), EVERYBODY)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. Making one raises `InvalidRule` if it means nothing."""

    id: str
    who: str
    """A principal, `group:NAME`, or `*` for everybody who was authenticated."""
    effect: Effect
    actions: frozenset[Action]
    kind: Kind
    namespace: str = ""
    """Of topics: a pattern; empty for other kinds."""
    name: str = ""
    """Of topics and subjects: a pattern; empty for the server."""
    subscription: str = ANY
    """A pattern, for `subscribe`."""

    def __post_init__(self) -> None:
        """Check that it can be about something."""
        if not self.who or self.who == GROUP or len(self.who) > _NAME_CHARS_MAX:
            raise _wrong(self, who=self.who, expected="a principal, group:NAME or *")
        may_be = ACTIONS_OF[self.kind]
        if not self.actions or not self.actions <= may_be:
            told = ", ".join(sorted(self.actions - may_be)) or "none"
            raise _wrong(self, actions=told, expected=f"of {', '.join(sorted(may_be))}")
        patterns = {"namespace": self.namespace, "name": self.name}
        wanted = {Kind.TOPIC: {"namespace", "name"}, Kind.SUBJECT: {"name"}, Kind.SERVER: set()}
        for field, pattern in patterns.items():
            if bool(pattern) != (field in wanted[self.kind]):
                raise _wrong(self, field=field, expected=f"what a rule on a {self.kind} has")
        for pattern in (self.namespace, self.name, self.subscription):
            if "*" in pattern[:-1]:
                raise _wrong(self, pattern=pattern, expected="a name, a prefix with * behind, or *")
        if self.subscription != ANY and self.actions != {Action.SUBSCRIBE}:
            raise _wrong(
                self, subscription=self.subscription, expected="the action subscribe alone"
            )

    def is_about(self, resource: Resource, subscription: str | None = None) -> bool:
        """Whether it says anything of a resource, and of a subscription if one is named."""
        if resource.kind is not self.kind:
            return False
        if self.subscription != ANY and not matches(self.subscription, subscription or ""):
            return False
        if resource.kind is Kind.TOPIC and not matches(self.namespace, resource.namespace):
            return False
        if resource.name is None:
            return self.name == ANY
        return resource.kind is Kind.SERVER or matches(self.name, resource.name)


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern matches a name."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _wrong(rule: Rule, **detail: object) -> InvalidRule:
    told = ", ".join(f"{name}={value}" for name, value in detail.items())
    return InvalidRule(f"rule {rule.id}: {told}")


@dataclass(frozen=True, slots=True)
class Ruling:
    """Whether somebody may do something."""

    is_allowed: bool
    rule: Rule | None
    """What decided it: None if no rule says anything, or if it is a superuser."""
    is_visible: bool
    """Whether somebody may know that the resource is there: some action on it is allowed."""


class RuleBook:
    """All rules, found by whom they are for."""

    def __init__(self, rules: Iterable[Rule], superusers: Iterable[str] = ()) -> None:
        """Hold rules; a superuser may do everything."""
        self._superusers = frozenset(superusers)
        self._by_name: dict[str, list[Rule]] = {}
        self.rules = tuple(sorted(rules, key=lambda rule: rule.id))
        for rule in self.rules:
            self._by_name.setdefault(rule.who, []).append(rule)

    def decide(
        self,
        identity: Identity,
        action: Action,
        resource: Resource,
        subscription: str | None = None,
    ) -> Ruling:
        """Return whether an identity may do an action to a resource."""
        if identity.principal in self._superusers:
            return Ruling(is_allowed=True, rule=None, is_visible=True)
        about = [
            rule
            for name in identity.names
            for rule in self._by_name.get(name, ())
            if rule.is_about(resource, subscription)
        ]
        rule = _decisive(about, action)
        is_allowed = rule is not None and rule.effect is Effect.ALLOW
        is_visible = is_allowed or any(_allows(about, each) for each in ACTIONS_OF[resource.kind])
        return Ruling(is_allowed, rule, is_visible)


def _decisive(rules: Iterable[Rule], action: Action) -> Rule | None:
    """Return the rule that decides: one that denies, or else one that allows."""
    found = [rule for rule in rules if action in rule.actions]
    denying = (rule for rule in found if rule.effect is Effect.DENY)
    return next(denying, found[0] if found else None)


def _allows(rules: Iterable[Rule], action: Action) -> bool:
    rule = _decisive(rules, action)
    return rule is not None and rule.effect is Effect.ALLOW
