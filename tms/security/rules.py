"""Rules, each of which allows or denies somebody actions on some resources.

    rule     := principal | group:NAME | *,  allow | deny,  actions,  what
    what     := namespace pattern, topic pattern [, subscription pattern] | subject pattern | server
    pattern  := literal | prefix* | *

1. Deny beats allow, and what no rule allows is denied. The order of rules means nothing.
2. A rule with a subscription pattern is for subscriptions of such names alone.
3. All of a namespace, or all subjects, are matched by the pattern `*` only.
4. Who may do anything to a topic may describe it too, unless a rule denies that.
5. The service's own topics, `system:_…`, are matched only by rules that name `system` and begin
   with `_`: no wider pattern takes them in.

A decision costs a look for each length of prefixes that the rules of somebody have, not for each
rule.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tms.core.caller import SYSTEM
from tms.security.resources import ACTIONS_OF, Action, Kind, Resource

EVERYBODY = "*"
GROUP = "group:"
ANY = "*"
SOME = "*"
"""In place of a subscription's name: whether there could be one."""
ANONYMOUS = "anonymous"
"""The principal of those who do not say who they are. Rules for everybody are not for it."""
_NAME_CHARS_MAX = 255
_OWN = "_"
"""What the names of the service's own topics begin with."""


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
        if self.principal == ANONYMOUS:
            return (ANONYMOUS,)
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

    def __str__(self) -> str:
        """Return what it says, in a line."""
        on = {Kind.TOPIC: f"{self.namespace}:{self.name}", Kind.SUBJECT: f"subject {self.name}"}
        told = f"{self.effect} {self.who} {','.join(sorted(self.actions))} on "
        told += on.get(self.kind, "the server")
        return told if self.subscription == ANY else f"{told}, subscription {self.subscription}"

    def is_of_subscription(self, subscription: str | None) -> bool:
        """Whether it holds for a subscription, or for a topic if none is named."""
        if self.subscription == ANY:
            return True
        return subscription is not None and matches(self.subscription, subscription)


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


class _Patterns:
    """Patterns, found by the names that they match."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._there = frozenset(patterns)
        prefixes = (len(each) - 1 for each in self._there if each.endswith(ANY) and each != ANY)
        self._lengths = sorted(set(prefixes))

    def of(self, name: str) -> Iterator[str]:
        """Give those that match a name."""
        for each in (name, ANY):
            if each in self._there:
                yield each
        for length in self._lengths:
            prefix = f"{name[:length]}{ANY}"
            if prefix in self._there and length <= len(name):
                yield prefix


class _RulesOfOne:
    """The rules for one principal, group, or everybody."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self._at: dict[tuple[Kind, str, str], list[Rule]] = {}
        for rule in self.rules:
            self._at.setdefault((rule.kind, rule.namespace, rule.name), []).append(rule)
        self._namespaces = _Patterns(rule.namespace for rule in self.rules)
        self._names = _Patterns(rule.name for rule in self.rules)

    def about(self, resource: Resource) -> Iterator[Rule]:
        """Give the rules that say something of a resource."""
        kind = resource.kind
        if kind is Kind.SERVER:
            yield from self._at.get((kind, "", ""), ())
            return
        is_own = is_topic_of_service(resource)
        namespaces = self._namespaces.of(resource.namespace) if kind is Kind.TOPIC else ("",)
        for namespace in (SYSTEM,) if is_own else namespaces:
            for name in (ANY,) if resource.name is None else self._names.of(resource.name):
                if not is_own or name.startswith(_OWN):
                    yield from self._at.get((kind, namespace, name), ())

    def within(self, namespace: str) -> Iterator[Rule]:
        """Give the rules that say something of topics of a namespace."""
        wanted = frozenset((namespace, *self._namespaces.of(namespace)))
        return (rule for rule in self.rules if rule.namespace in wanted)


_NONE = _RulesOfOne(())


class RuleBook:
    """All rules, found by whom they are for. It does not change."""

    def __init__(self, rules: Iterable[Rule], superusers: Iterable[str] = ()) -> None:
        """Hold rules; a superuser may do everything."""
        self._superusers = frozenset(superusers)
        by_name: dict[str, list[Rule]] = {}
        for rule in sorted(rules, key=_by_id):
            by_name.setdefault(rule.who, []).append(rule)
        self._by_name: Mapping[str, _RulesOfOne] = {
            who: _RulesOfOne(found) for who, found in by_name.items()
        }

    def with_rules_of(self, changed: Mapping[str, Iterable[Rule]]) -> "RuleBook":
        """Return a book in which some have these rules and no others, by their names."""
        book = RuleBook((), self._superusers)
        book._by_name = {
            **self._by_name,
            **{who: _RulesOfOne(sorted(rules, key=_by_id)) for who, rules in changed.items()},
        }
        return book

    def is_superuser(self, identity: Identity) -> bool:
        """Whether somebody may do everything."""
        return identity.principal in self._superusers

    def decide(
        self,
        identity: Identity,
        action: Action,
        resource: Resource,
        subscription: str | None = None,
    ) -> Ruling:
        """Return whether an identity may do an action to a resource."""
        if self.is_superuser(identity):
            return Ruling(is_allowed=True, rule=None, is_visible=True)
        about = [
            rule
            for name in identity.names
            for rule in self._by_name.get(name, _NONE).about(resource)
        ]
        of_some = _of_some_subscription(about)
        of_it = of_some
        if subscription != SOME:
            of_it = [rule for rule in about if rule.is_of_subscription(subscription)]
        rule = _decisive(of_it, action)
        if rule is None and action is Action.DESCRIBE:
            rule = _allowing_any(of_it, ACTIONS_OF[resource.kind])
        is_allowed = rule is not None and rule.effect is Effect.ALLOW
        is_visible = is_allowed or _allowing_any(of_some, ACTIONS_OF[resource.kind]) is not None
        return Ruling(is_allowed, rule, is_visible)

    def may_within(self, identity: Identity, action: Action, namespace: str) -> bool:
        """Whether somebody may do an action to a topic of a namespace, whichever that is."""
        return self.is_superuser(identity) or any(
            action in rule.actions and rule.effect is Effect.ALLOW
            for name in identity.names
            for rule in self._by_name.get(name, _NONE).within(namespace)
        )


def is_topic_of_service(resource: Resource) -> bool:
    """Whether a topic is the service's own."""
    is_named = resource.namespace == SYSTEM and (resource.name or "").startswith(_OWN)
    return resource.kind is Kind.TOPIC and is_named


def _decisive(rules: Iterable[Rule], action: Action) -> Rule | None:
    """Return the rule that decides: one that denies, or else one that allows."""
    found = [rule for rule in rules if action in rule.actions]
    denying = (rule for rule in found if rule.effect is Effect.DENY)
    return min(denying, default=min(found, default=None, key=_by_id), key=_by_id)


def _of_some_subscription(about: Iterable[Rule]) -> list[Rule]:
    """Return the rules that say what may be done to some subscription, whichever that is.

    Denials of narrower patterns are not added up: it takes one for each character to take in all
    of a wider pattern.
    """
    about = list(about)
    denied = [
        rule.subscription
        for rule in about
        if rule.effect is Effect.DENY and Action.SUBSCRIBE in rule.actions
    ]
    return [
        rule
        for rule in about
        if rule.subscription == ANY
        or (rule.effect is Effect.ALLOW and not _takes_in(denied, rule.subscription))
    ]


def _takes_in(patterns: Iterable[str], pattern: str) -> bool:
    """Whether one of `patterns` matches all that `pattern` matches."""
    is_prefix = pattern.endswith(ANY)
    start = pattern[:-1] if is_prefix else pattern
    return any(matches(each, start) and (each.endswith(ANY) or not is_prefix) for each in patterns)


def _by_id(rule: Rule) -> str:
    return rule.id


def _allowing_any(rules: Iterable[Rule], actions: Iterable[Action]) -> Rule | None:
    """Return a rule by which one of the actions is allowed; None if none is."""
    deciding = (_decisive(rules, action) for action in actions)
    allowing = (rule for rule in deciding if rule is not None and rule.effect is Effect.ALLOW)
    return min(allowing, default=None, key=_by_id)
