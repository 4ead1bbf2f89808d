"""All rules together, and their decisions.

A decision costs one or two lookups for each matching pattern of namespaces, not for each rule: the
rules that decide for a pattern of names are kept together.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter

from tms.core.values.caller import SYSTEM
from tms.security.resources import ACTIONS_OF, Action, Kind, Resource
from tms.security.rules import ANY, OWN, Effect, Identity, Rule, is_topic_of_service

SOME = "*"
"""Stands for a subscription's name if the question is whether any one is allowed."""

_by_id = attrgetter("id")


@dataclass(frozen=True, slots=True)
class Ruling:
    """Whether somebody may do something."""

    is_allowed: bool
    rule: Rule | None
    """The rule that decided; None if no rule applies, or for a superuser."""
    is_visible: bool
    """Whether the caller may know that the resource exists: some action on it is allowed."""


class _Patterns:
    """Patterns, indexed by the names that they match."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._there = there = frozenset(patterns)
        self.has_any = ANY in there
        self.literals = frozenset(each for each in there if not each.endswith(ANY))
        self.prefixes = sorted(each[:-1] for each in there - self.literals if each != ANY)
        self.parents: list[int] = []
        """For each prefix, the index of its longest shorter prefix; -1 if there is none."""
        for at, prefix in enumerate(self.prefixes):
            self.parents.append(self._first_of(at - 1, prefix))

    def _first_of(self, at: int, name: str) -> int:
        while at >= 0 and not name.startswith(self.prefixes[at]):
            at = self.parents[at]
        return at

    def longest(self, name: str) -> int:
        """Return the index of the longest prefix of a name, -1 if there is none."""
        return self._first_of(bisect_right(self.prefixes, name) - 1, name)

    def of(self, name: str) -> Iterator[str]:
        """Yield the patterns that match a name."""
        if name in self.literals:
            yield name
        if self.has_any:
            yield ANY
        at = self.longest(name)
        while at >= 0:
            yield f"{self.prefixes[at]}{ANY}"
            at = self.parents[at]

    def take_in(self, pattern: str) -> bool:
        """Whether one of them matches everything that a pattern matches."""
        return pattern in self._there or self.have_wider(pattern)

    def have_wider(self, pattern: str) -> bool:
        """Whether another one matches everything that a pattern matches."""
        if self.has_any:
            return pattern != ANY
        if not pattern.endswith(ANY):
            return self.longest(pattern) >= 0
        prefix = pattern[:-1]
        return self._first_of(bisect_left(self.prefixes, prefix) - 1, prefix) >= 0


class _Deciding:
    """The deciding rules for a name, among those with a pattern in some field."""

    def __init__(self, rules: Iterable[Rule], field: str = "name") -> None:
        by_pattern = _by_field(rules, field)
        self._patterns = _Patterns(by_pattern)
        self.of_any = _deciding(by_pattern.get(ANY, ()))
        """The rules for all names."""
        self._of_prefixes: list[tuple[Rule, ...]] = []
        for prefix, parent in zip(self._patterns.prefixes, self._patterns.parents, strict=True):
            of_parent = self._of_prefixes[parent] if parent >= 0 else ()
            self._of_prefixes.append(_deciding((*by_pattern[f"{prefix}{ANY}"], *of_parent)))
        self._of_literals = {
            name: _deciding((*by_pattern[name], *self._by_prefix(name)))
            for name in self._patterns.literals
        }

    def of(self, name: str) -> tuple[Rule, ...]:
        """Return the rules for a name, without those for all names."""
        rules = self._of_literals.get(name)
        return self._by_prefix(name) if rules is None else rules

    def _by_prefix(self, name: str) -> tuple[Rule, ...]:
        at = self._patterns.longest(name)
        return self._of_prefixes[at] if at >= 0 else ()


class _Limited:
    """Rules for some subscriptions, for topics that match one pattern."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        rules = list(rules)
        self.deciding = _Deciding(rules, "subscription")
        denied = {rule.subscription for rule in rules if rule.effect is Effect.DENY}
        self._denied = _Patterns(denied)
        allowed = {rule.subscription: rule for rule in rules if rule.effect is Effect.ALLOW}
        patterns = _Patterns(allowed)
        self.allowing = [
            rule
            for at, rule in allowed.items()
            if not self.denies_all(at) and not patterns.have_wider(at)
        ]
        """The widest rules that allow, except those whose subscriptions are all denied here."""

    def denies_all(self, pattern: str) -> bool:
        """Whether a rule denies every subscription that a pattern matches.

        Denials with narrower patterns are not combined: covering a wider pattern would take one for
        each character.
        """
        return self._denied.take_in(pattern)


class _LimitedByName:
    """Rules for some subscriptions, by the patterns of their topics' names."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        by_name = _by_field(rules, "name")
        self._names = _Patterns(by_name)
        self._by_name = {name: _Limited(found) for name, found in by_name.items()}

    def of(self, name: str | None, *, is_own: bool) -> Iterator[_Limited]:
        """Yield those for a topic; for all topics if `None`."""
        for pattern in (ANY,) if name is None else self._names.of(name):
            if pattern in self._by_name and (not is_own or pattern.startswith(OWN)):
                yield self._by_name[pattern]


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
        self._limited = {at: _LimitedByName(found) for at, found in limited.items()}
        self._namespaces = _Patterns(namespace for _, namespace in plain)
        self._limited_namespaces = _Patterns(limited)
        self._allowed = {action: _Patterns(found) for action, found in allowed.items()}

    def about(self, resource: Resource) -> Iterator[Rule]:
        """Yield the rules that decide on a resource, whatever the subscription."""
        kind, name = resource.kind, resource.name
        if kind is Kind.SERVER:
            deciding = self._plain.get((kind, ""))
            if deciding is not None:
                yield from deciding.of("")
            return
        is_own = is_topic_of_service(resource)
        for namespace in (SYSTEM,) if is_own else self._matching(resource):
            deciding = self._plain.get((kind, namespace))
            if deciding is None:
                continue
            if not is_own:
                yield from deciding.of_any
            if name is not None:
                yield from deciding.of(name)

    def _matching(self, resource: Resource) -> Iterable[str]:
        is_topic = resource.kind is Kind.TOPIC
        return self._namespaces.of(resource.namespace) if is_topic else ("",)

    def limited(self, resource: Resource) -> Iterator[_Limited]:
        """Yield the rules on a topic that are for some subscriptions."""
        if not self._limited or resource.kind is not Kind.TOPIC:
            return
        is_own = is_topic_of_service(resource)
        namespaces = self._limited_namespaces.of(resource.namespace)
        for namespace in (SYSTEM,) if is_own else namespaces:
            if namespace in self._limited:
                yield from self._limited[namespace].of(resource.name, is_own=is_own)

    def may_within(self, action: Action, namespace: str) -> bool:
        """Whether an action is allowed on any topic of a namespace."""
        allowed = self._allowed.get(action)
        return allowed is not None and any(True for _ in allowed.of(namespace))


def _by_field(rules: Iterable[Rule], field: str) -> dict[str, list[Rule]]:
    by_field: dict[str, list[Rule]] = {}
    for rule in rules:
        by_field.setdefault(getattr(rule, field), []).append(rule)
    return by_field


def _deciding(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the deciding rules: for each action, the first of either effect."""
    first: dict[tuple[Action, Effect], Rule] = {}
    for rule in sorted(rules, key=_by_id):
        for action in rule.actions:
            first.setdefault((action, rule.effect), rule)
    return tuple(dict.fromkeys(first.values()))


class RuleBook:
    """All rules, by the names they are for. Names without a rule are not stored."""

    def __init__(self, rules: Iterable[Rule], superusers: Iterable[str] = ()) -> None:
        """Hold rules; superusers may do everything."""
        self._superusers = frozenset(superusers)
        by_name: dict[str, list[Rule]] = {}
        for rule in sorted(rules, key=_by_id):
            by_name.setdefault(rule.who, []).append(rule)
        self._by_name = {who: _RulesOfOne(found) for who, found in by_name.items()}

    def replace_rules_of(self, changed: Mapping[str, Iterable[Rule]]) -> None:
        """Replace the rules of some names."""
        for who, rules in changed.items():
            ordered = sorted(rules, key=_by_id)
            if ordered:
                self._by_name[who] = _RulesOfOne(ordered)
            else:
                self._by_name.pop(who, None)

    def is_superuser(self, identity: Identity) -> bool:
        """Whether an identity may do everything."""
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
        books = [self._by_name[name] for name in identity.names if name in self._by_name]
        plain = [rule for rules in books for rule in rules.about(resource)]
        limited = [each for rules in books for each in rules.limited(resource)]
        if subscription == SOME:
            of_it = [*plain, *_of_some_subscription(limited)]
        elif subscription is None or not limited:
            of_it = plain
        else:
            of_it = plain + [rule for each in limited for rule in each.deciding.of(subscription)]
        rule = _decisive(of_it, action)
        if rule is None and action is Action.DESCRIBE:
            rule = _allowing_any(of_it, ACTIONS_OF[resource.kind])
        is_allowed = rule is not None and rule.effect is Effect.ALLOW
        is_visible = is_allowed or self._is_visible(plain, limited, resource)
        return Ruling(is_allowed, rule, is_visible)

    def _is_visible(
        self, plain: Iterable[Rule], limited: Iterable[_Limited], resource: Resource
    ) -> bool:
        of_some = [*plain, *_of_some_subscription(limited)]
        return _allowing_any(of_some, ACTIONS_OF[resource.kind]) is not None

    def may_within(self, identity: Identity, action: Action, namespace: str) -> bool:
        """Whether an identity may do an action to any topic of a namespace."""
        return self.is_superuser(identity) or any(
            self._by_name[name].may_within(action, namespace)
            for name in identity.names
            if name in self._by_name
        )


def _decisive(rules: Iterable[Rule], action: Action) -> Rule | None:
    """Return the deciding rule: one that denies, or else one that allows."""
    matching = [rule for rule in rules if action in rule.actions]
    denying = [rule for rule in matching if rule.effect is Effect.DENY]
    return min(denying or matching, default=None, key=_by_id)


def _of_some_subscription(limited: Iterable[_Limited]) -> list[Rule]:
    """Return a rule that allows a subscription that none denies, if there is one."""
    limited = list(limited)
    for each in limited:
        for rule in each.allowing:
            if not any(other.denies_all(rule.subscription) for other in limited):
                return [rule]
    return []


def _allowing_any(rules: Iterable[Rule], actions: Iterable[Action]) -> Rule | None:
    """Return a rule that allows one of the actions; None if there is none."""
    deciding = (_decisive(rules, action) for action in actions)
    allowing = (rule for rule in deciding if rule is not None and rule.effect is Effect.ALLOW)
    return min(allowing, default=None, key=_by_id)
