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

A decision costs a look or two for each pattern of namespaces that matches, not for each rule: for
each pattern of names, those rules are kept together that decide on what it matches.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter

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

    def is_of_subscription(self, subscription: str | None) -> bool:
        """Whether it holds for a subscription, for some of them, or if none is named."""
        if self.subscription == ANY:
            return True
        if subscription == SOME:
            return self.effect is Effect.ALLOW
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
        there = frozenset(patterns)
        self.has_any = ANY in there
        self.literals = frozenset(each for each in there if not each.endswith(ANY))
        self.prefixes = sorted(each[:-1] for each in there - self.literals if each != ANY)
        self.parents: list[int] = []
        """Of each prefix, the place of the longest other one that it begins with; -1: of none."""
        for at, prefix in enumerate(self.prefixes):
            self.parents.append(self._first_of(at - 1, prefix))

    def _first_of(self, at: int, name: str) -> int:
        while at >= 0 and not name.startswith(self.prefixes[at]):
            at = self.parents[at]
        return at

    def longest(self, name: str) -> int:
        """Return the place of the longest prefix that a name begins with, -1 if there is none."""
        return self._first_of(bisect_right(self.prefixes, name) - 1, name)

    def of(self, name: str) -> Iterator[str]:
        """Give those that match a name."""
        if name in self.literals:
            yield name
        if self.has_any:
            yield ANY
        at = self.longest(name)
        while at >= 0:
            yield f"{self.prefixes[at]}{ANY}"
            at = self.parents[at]


class _Deciding:
    """Of rules that have a pattern of some field, those that decide for a name."""

    def __init__(self, rules: Iterable[Rule], field: str = "name") -> None:
        by_pattern = _by_field(rules, field)
        self._patterns = _Patterns(by_pattern)
        self.of_any = _deciding(by_pattern.get(ANY, ()))
        """Those on all names."""
        self._of_prefixes: list[tuple[Rule, ...]] = []
        for prefix, parent in zip(self._patterns.prefixes, self._patterns.parents, strict=True):
            of_parent = self._of_prefixes[parent] if parent >= 0 else ()
            self._of_prefixes.append(_deciding((*by_pattern[f"{prefix}{ANY}"], *of_parent)))
        self._of_literals = {
            name: _deciding((*by_pattern[name], *self._by_prefix(name)))
            for name in self._patterns.literals
        }

    def of(self, name: str) -> tuple[Rule, ...]:
        """Return those on a name, less those on all names."""
        found = self._of_literals.get(name)
        return self._by_prefix(name) if found is None else found

    def _by_prefix(self, name: str) -> tuple[Rule, ...]:
        at = self._patterns.longest(name)
        return self._of_prefixes[at] if at >= 0 else ()


class _OfSubscriptions:
    """Rules that are for subscriptions of some names."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._deciding = _Deciding(rules, "subscription")
        allowing = (rule for rule in rules if rule.effect is Effect.ALLOW)
        self._for_some = tuple(sorted(allowing, key=_by_id)[:1])

    def of(self, subscription: str | None) -> tuple[Rule, ...]:
        """Return those that decide for a subscription, and one that allows any, if there is one."""
        if subscription is None or subscription == SOME:
            return self._for_some
        return (*self._for_some, *self._deciding.of(subscription))


class _OfLimitedNames:
    """Rules that are for some subscriptions, of topics of some names."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        by_name = _by_field(rules, "name")
        self._names = _Patterns(by_name)
        self._by_name = {name: _OfSubscriptions(found) for name, found in by_name.items()}

    def of(self, name: str | None, subscription: str | None) -> Iterator[Rule]:
        """Give those that decide for a topic, and a subscription; `None`: for all of them."""
        for pattern in (ANY,) if name is None else self._names.of(name):
            if pattern in self._by_name:
                yield from self._by_name[pattern].of(subscription)


class _RulesOfOne:
    """The rules for one principal, group, or everybody."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        plain: dict[tuple[Kind, str], list[Rule]] = {}
        limited: dict[str, list[Rule]] = {}
        allowed: dict[Action, set[str]] = {}
        for rule in rules:
            if rule.subscription == ANY:
                plain.setdefault((rule.kind, rule.namespace), []).append(rule)
            else:
                limited.setdefault(rule.namespace, []).append(rule)
            if rule.effect is Effect.ALLOW:
                for action in rule.actions:
                    allowed.setdefault(action, set()).add(rule.namespace)
        self._plain = {at: _Deciding(found) for at, found in plain.items()}
        self._limited = {at: _OfLimitedNames(found) for at, found in limited.items()}
        self._namespaces = _Patterns(namespace for _, namespace in plain)
        self._limited_namespaces = _Patterns(limited)
        self._allowed = {action: _Patterns(found) for action, found in allowed.items()}

    def about(self, resource: Resource, subscription: str | None) -> Iterator[Rule]:
        """Give the rules that decide on a resource, and on a subscription if one is named."""
        kind, name = resource.kind, resource.name
        if kind is Kind.SERVER:
            deciding = self._plain.get((kind, ""))
            if deciding is not None:
                yield from deciding.of("")
            return
        is_own = is_topic_of_service(resource)
        for namespace in (SYSTEM,) if is_own else self._matching(self._namespaces, resource):
            deciding = self._plain.get((kind, namespace))
            if deciding is None:
                continue
            if not is_own:
                yield from deciding.of_any
            if name is not None:
                yield from deciding.of(name)
        if self._limited and kind is Kind.TOPIC:
            yield from self._about_subscriptions(resource, subscription, is_own=is_own)

    def _matching(self, namespaces: _Patterns, resource: Resource) -> Iterable[str]:
        return namespaces.of(resource.namespace) if resource.kind is Kind.TOPIC else ("",)

    def _about_subscriptions(
        self, resource: Resource, subscription: str | None, *, is_own: bool
    ) -> Iterator[Rule]:
        if not is_own:
            for namespace in self._limited_namespaces.of(resource.namespace):
                yield from self._limited[namespace].of(resource.name, subscription)
        elif SYSTEM in self._limited:
            of_system = self._limited[SYSTEM].of(resource.name, subscription)
            yield from (rule for rule in of_system if rule.name.startswith(_OWN))

    def may_within(self, action: Action, namespace: str) -> bool:
        """Whether an action is allowed on a topic of a namespace, whichever that is."""
        allowed = self._allowed.get(action)
        return allowed is not None and any(True for _ in allowed.of(namespace))


def _by_field(rules: Iterable[Rule], field: str) -> dict[str, list[Rule]]:
    found: dict[str, list[Rule]] = {}
    for rule in rules:
        found.setdefault(getattr(rule, field), []).append(rule)
    return found


def _deciding(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return those of some rules that decide: of each action, the first of either effect."""
    first: dict[tuple[Action, Effect], Rule] = {}
    for rule in sorted(rules, key=_by_id):
        for action in rule.actions:
            first.setdefault((action, rule.effect), rule)
    return tuple(dict.fromkeys(first.values()))


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
            if name in self._by_name
            for rule in self._by_name[name].about(resource, subscription)
        ]
        of_it = [
            rule
            for rule in about
            if rule.subscription == ANY or rule.is_of_subscription(subscription)
        ]
        rule = _decisive(of_it, action)
        if rule is None and action is Action.DESCRIBE:
            rule = _allowing_any(of_it, ACTIONS_OF[resource.kind])
        is_allowed = rule is not None and rule.effect is Effect.ALLOW
        known_by = [rule for rule in about if rule.is_of_subscription(SOME)]
        is_visible = is_allowed or _allowing_any(known_by, ACTIONS_OF[resource.kind]) is not None
        return Ruling(is_allowed, rule, is_visible)

    def may_within(self, identity: Identity, action: Action, namespace: str) -> bool:
        """Whether somebody may do an action to a topic of a namespace, whichever that is."""
        return self.is_superuser(identity) or any(
            self._by_name[name].may_within(action, namespace)
            for name in identity.names
            if name in self._by_name
        )


def is_topic_of_service(resource: Resource) -> bool:
    """Whether a topic is the service's own."""
    is_named = resource.namespace == SYSTEM and (resource.name or "").startswith(_OWN)
    return resource.kind is Kind.TOPIC and is_named


def _decisive(rules: Iterable[Rule], action: Action) -> Rule | None:
    """Return the rule that decides: one that denies, or else one that allows."""
    found = [rule for rule in rules if action in rule.actions]
    denying = [rule for rule in found if rule.effect is Effect.DENY]
    return min(denying or found, default=None, key=_by_id)


_by_id = attrgetter("id")


def _allowing_any(rules: Iterable[Rule], actions: Iterable[Action]) -> Rule | None:
    """Return a rule by which one of the actions is allowed; None if none is."""
    deciding = (_decisive(rules, action) for action in actions)
    allowing = (rule for rule in deciding if rule is not None and rule.effect is Effect.ALLOW)
    return min(allowing, default=None, key=_by_id)
