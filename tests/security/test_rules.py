"""The decision, compared with a naive one; and the rules that are invalid."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.security.drawn_rules import IDENTITIES, NAMES, RESOURCES, WHO, naive, rules
from tms.security.resources import ACTIONS_OF, SERVER, Action, Kind, Resource
from tms.security.resources import subject_resource as subject
from tms.security.resources import topic_resource as topic
from tms.security.rule_book import SOME, RuleBook, Ruling
from tms.security.rules import Effect, Identity, InvalidRule, Rule


def is_told(given: list[Rule], who: Identity, action: Action, what: Resource, name: Any) -> bool:
    """Return whether a rule applies to an action, be it to allow or to deny it."""
    both = [replace(rule, effect=Effect.ALLOW) for rule in given]
    return naive(both, who, action, what, name)


def expected(given: list[Rule], who: Identity, what: Resource, name: Any) -> dict[Action, bool]:
    allowed = {action: naive(given, who, action, what, name) for action in ACTIONS_OF[what.kind]}
    if what.kind is Kind.TOPIC and not is_told(given, who, Action.DESCRIBE, what, name):
        allowed[Action.DESCRIBE] = any(allowed.values())
    return allowed


SUBSCRIPTIONS = [None, *("".join(each) for n in range(1, 5) for each in product("abc", repeat=n))]
"""Names with and without what the drawn patterns have: one of them is in each pattern, and in no
narrower one."""


def is_seen(given: list[Rule], who: Identity, what: Resource) -> bool:
    """Return whether any action is allowed, perhaps on some subscriptions only."""
    actions = ACTIONS_OF[what.kind]
    names = SUBSCRIPTIONS if any(rule.subscription != "*" for rule in given) else [None]
    return any(naive(given, who, action, what, None) for action in actions) or any(
        naive(given, who, Action.SUBSCRIBE, what, name) for name in names
    )


@given(st.lists(rules(), max_size=8), IDENTITIES, RESOURCES, st.none() | NAMES, st.randoms())
def test_it_decides_as_a_naive_reader_of_all_rules_would(
    given: list[Rule], who: Identity, what: Resource, name: str | None, chance: Any
) -> None:
    book = RuleBook(given)
    shuffled = [*given]
    chance.shuffle(shuffled)
    for action, is_allowed in expected(given, who, what, name).items():
        decision = book.decide(who, action, what, name)
        assert decision.is_allowed == is_allowed
        assert decision.is_visible == (is_allowed or is_seen(given, who, what))
        assert decision == RuleBook(shuffled).decide(who, action, what, name)
        if decision.rule is not None:
            assert (decision.rule.effect is Effect.ALLOW) == is_allowed
    if what.kind is Kind.TOPIC:
        some = any(naive(given, who, Action.SUBSCRIBE, what, name) for name in SUBSCRIPTIONS)
        assert book.decide(who, Action.SUBSCRIBE, what, SOME).is_allowed == some
    assert not book.decide(who, Action.GRANT, subject("a")).is_allowed


@pytest.mark.parametrize(
    ("allowed", "denied", "is_there"),
    [
        ("s", ["s"], False),
        ("s", ["s*"], False),
        ("s", ["*"], False),
        ("s*", ["s*"], False),
        ("s*", ["*"], False),
        ("st*", ["s*", "x"], False),
        ("s*", ["s"], True),
        ("s*", ["st*", "su*"], True),
        ("*", ["s", "s*"], True),
        ("*", ["*"], False),
        ("s", ["t"], True),
        ("s", [], True),
    ],
)
def test_who_may_move_no_subscription_may_not_know_that_the_topic_is_there(
    allowed: str, denied: list[str], *, is_there: bool
) -> None:
    effects = [(Effect.ALLOW, allowed), *((Effect.DENY, each) for each in denied)]
    actions = frozenset([Action.SUBSCRIBE])
    given = [
        Rule(f"{at}", "ann", effect, actions, Kind.TOPIC, "ns", "t", pattern)
        for at, (effect, pattern) in enumerate(effects)
    ]
    for action in (Action.SUBSCRIBE, Action.CONSUME):
        ruling = RuleBook(given).decide(Identity("ann"), action, topic("ns", "t"))
        assert ruling.is_visible == is_there
    some = RuleBook(given).decide(Identity("ann"), Action.SUBSCRIBE, topic("ns", "t"), SOME)
    assert some.is_allowed == is_there


@given(st.lists(rules(), max_size=8), IDENTITIES, RESOURCES, st.data())
def test_rules_are_replaced_for_one_name_at_a_time(
    given: list[Rule], who: Identity, what: Resource, data: st.DataObject
) -> None:
    name = data.draw(WHO)
    others = data.draw(st.lists(rules().map(lambda rule: replace(rule, who=name)), max_size=4))
    changed = RuleBook(given)
    changed.replace_rules_of({name: others})
    assert (name in changed._by_name) == bool(others)
    anew = RuleBook([*(rule for rule in given if rule.who != name), *others])
    for action in ACTIONS_OF[what.kind]:
        assert changed.decide(who, action, what) == anew.decide(who, action, what)


@given(st.lists(rules(), max_size=8), IDENTITIES, NAMES, st.lists(NAMES, min_size=1))
def test_who_may_something_within_a_namespace_is_let_ask(
    given: list[Rule], who: Identity, namespace: str, names: list[str]
) -> None:
    book = RuleBook(given)
    for action in (Action.PUBLISH, Action.CONSUME):
        for name in names:
            if book.decide(who, action, topic(namespace, name)).is_allowed:
                assert book.may_within(who, action, namespace)


@pytest.mark.parametrize("subscription", [None, "s500"])
def test_of_many_rules_a_few_are_looked_at(subscription: str | None) -> None:
    def one(number: int) -> Rule:
        name = f"{'n' * (number % 240)}*"
        limit = "*" if number % 2 else f"s{number}"
        actions = frozenset([Action.SUBSCRIBE] if limit != "*" else [Action.PUBLISH])
        return Rule(f"{number}", "ann", Effect.ALLOW, actions, Kind.TOPIC, "ns", name, limit)

    prefixes = RuleBook([one(number) for number in range(1, 1_000, 2)])
    subscriptions = RuleBook([replace(one(number), name="nn*") for number in range(0, 1_000, 2)])
    for book in (prefixes, subscriptions):
        of_ann, what = book._by_name["ann"], topic("ns", "n" * 250)
        limited = [*of_ann.limited(what)]
        found = [*of_ann.about(what)]
        found += [rule for each in limited for rule in each.deciding.of(subscription or "s")]
        assert len(found) <= 4
        assert len(limited) <= 1


def test_no_pattern_takes_in_the_topics_of_the_service() -> None:
    def book(namespace: str, name: str) -> RuleBook:
        actions = frozenset([Action.CONSUME])
        return RuleBook([Rule("1", "ann", Effect.ALLOW, actions, Kind.TOPIC, namespace, name)])

    schemas, ordinary = topic("system", "_schemas"), topic("system", "metadata")
    for namespace, name in (("*", "*"), ("sys*", "*"), ("system", "*"), ("*", "_schemas")):
        assert not book(namespace, name).decide(Identity("ann"), Action.CONSUME, schemas).is_allowed
    for name in ("_schemas", "_s*", "_*"):
        assert book("system", name).decide(Identity("ann"), Action.CONSUME, schemas).is_allowed
    assert book("*", "*").decide(Identity("ann"), Action.CONSUME, ordinary).is_allowed


def test_rules_for_everybody_are_not_for_who_is_nobody() -> None:
    rule = Rule("1", "*", Effect.ALLOW, frozenset([Action.OPERATE]), Kind.SERVER)
    assert RuleBook([rule]).decide(Identity("ann"), Action.OPERATE, SERVER).is_allowed
    assert not RuleBook([rule]).decide(Identity("anonymous"), Action.OPERATE, SERVER).is_allowed


@given(st.lists(rules(), max_size=5), RESOURCES)
def test_a_superuser_may_do_everything(given: list[Rule], what: Resource) -> None:
    book = RuleBook(given, superusers=["root"])
    for action in Action:
        decision = book.decide(Identity("root"), action, what)
        assert decision == Ruling(is_allowed=True, rule=None, is_visible=True)
    assert not RuleBook([]).decide(Identity("root"), Action.OPERATE, SERVER).is_allowed


def test_a_group_is_not_a_principal_of_its_name() -> None:
    rule = Rule("1", "group:g", Effect.ALLOW, frozenset([Action.OPERATE]), Kind.SERVER)
    book = RuleBook([rule])
    assert not book.decide(Identity("g"), Action.OPERATE, SERVER).is_allowed
    assert book.decide(Identity("x", frozenset("g")), Action.OPERATE, SERVER).rule is rule


@pytest.mark.parametrize(
    "wrong",
    [
        {"who": ""},
        {"who": "group:"},
        {"who": "x" * 256},
        {"actions": frozenset()},
        {"actions": frozenset([Action.OPERATE])},
        {"namespace": ""},
        {"name": ""},
        {"namespace": "a*b"},
        {"name": "**"},
        {"subscription": "s*", "actions": frozenset([Action.PUBLISH])},
        {"kind": Kind.SERVER, "actions": frozenset([Action.OPERATE])},
        {"kind": Kind.SUBJECT, "actions": frozenset([Action.READ])},
    ],
)
def test_a_rule_that_means_nothing_is_refused(wrong: dict[str, Any]) -> None:
    right: dict[str, Any] = {
        "id": "1",
        "who": "ann",
        "effect": Effect.ALLOW,
        "kind": Kind.TOPIC,
        "actions": frozenset([Action.PUBLISH]),
        "namespace": "ns",
        "name": "t*",
    }
    assert Rule(**right)
    with pytest.raises(InvalidRule, match=r"rule 1: .*expected"):
        Rule(**{**right, **wrong})
