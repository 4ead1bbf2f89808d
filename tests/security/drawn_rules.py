"""Rules, identities and resources with few names, so that they match often; and a naive check."""

from typing import Any

from hypothesis import strategies as st

from tms.security.resources import ACTIONS_OF, SERVER, Action, Kind, Resource
from tms.security.resources import subject_resource as subject
from tms.security.resources import topic_resource as topic
from tms.security.rules import Effect, Identity, Rule

NAMES = st.text("ab", min_size=1, max_size=3)
PATTERNS = st.one_of(NAMES, NAMES.map("{}*".format), st.just("*"))
SUBJECTS = st.one_of(NAMES, NAMES.map(":.a:{}".format), st.none())
SUBJECT_PATTERNS = st.one_of(
    PATTERNS, PATTERNS.map(":.a:{}".format), st.sampled_from([":.a:*", ":.*", ":.b:a"])
)
WHO = st.one_of(
    st.sampled_from(["ann", "bob", "*"]), st.sampled_from(["g", "h"]).map("group:{}".format)
)
IDENTITIES = st.builds(
    Identity, st.sampled_from(["ann", "bob", "eve", "g"]), st.frozensets(st.sampled_from("gh"))
)
RESOURCES = st.one_of(
    st.just(SERVER), st.builds(topic, NAMES, st.none() | NAMES), st.builds(subject, SUBJECTS)
)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    kind = draw(st.sampled_from(Kind))
    actions = draw(st.frozensets(st.sampled_from(sorted(ACTIONS_OF[kind])), min_size=1))
    patterns = SUBJECT_PATTERNS if kind is Kind.SUBJECT else PATTERNS
    has_one = actions == {Action.SUBSCRIBE}
    return Rule(
        draw(st.uuids().map(str)),
        draw(WHO),
        draw(st.sampled_from(Effect)),
        actions,
        kind,
        draw(PATTERNS) if kind is Kind.TOPIC else "",
        "" if kind is Kind.SERVER else draw(patterns),
        draw(PATTERNS) if has_one else "*",
    )


def fits(pattern: str, name: str) -> bool:
    if pattern == "*":
        return True
    if pattern[-1] == "*":
        return name[: len(pattern) - 1] == pattern[:-1]
    return pattern == name


def naive(given: list[Rule], who: Identity, action: Action, what: Resource, name: Any) -> bool:
    """Return whether an action is allowed, by evaluating each rule by itself."""
    effects = set()
    for rule in given:
        is_for = rule.who in ("*", who.principal) or rule.who in [f"group:{g}" for g in who.groups]
        is_of = rule.kind is what.kind and action in rule.actions
        if not is_for or not is_of:
            continue
        is_there = what.kind is not Kind.TOPIC or fits(rule.namespace, what.namespace)
        if what.kind is not Kind.SERVER:
            is_there = is_there and (
                rule.name == "*" if what.name is None else fits(rule.name, what.name)
            )
        if is_there and (rule.subscription == "*" or (name and fits(rule.subscription, name))):
            effects.add(rule.effect)
    return effects == {Effect.ALLOW}
