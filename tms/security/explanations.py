"""Explains in words why a caller may do something or not."""

from typing import NamedTuple

from tms.security.resources import (
    ACTIONS_OF,
    SERVER,
    Action,
    Kind,
    Resource,
    subject_resource,
    topic_resource,
)
from tms.security.rule_book import RuleBook, Ruling
from tms.security.rules import Identity


class Explanation(NamedTuple):
    """A decision, and its reason."""

    ruling: Ruling
    reason: str


def resource_of(action: Action, namespace: str, topic: str | None, subject: str | None) -> Resource:
    """Return the resource of an action, given the names that it needs.

    Without a topic it is all of the namespace, without a subject all subjects.
    """
    if action in ACTIONS_OF[Kind.SERVER]:
        return SERVER
    if action in ACTIONS_OF[Kind.SUBJECT]:
        return subject_resource(subject)
    return topic_resource(namespace, topic)


def explained(
    book: RuleBook,
    identity: Identity,
    action: Action,
    resource: Resource,
    subscription: str | None = None,
) -> Explanation:
    """Return whether an identity may do something by a rule book, and why."""
    ruling = book.decide(identity, action, resource, subscription)
    may = f"may {'' if ruling.is_allowed else 'not '}{action}"
    text = f"{identity.principal} {may} on {resource}"
    if book.is_superuser(identity):
        return Explanation(ruling, f"{text}: it is a superuser.")
    if ruling.rule is not None:
        return Explanation(ruling, f"{text}, by rule {ruling.rule.id}.")
    return Explanation(ruling, f"{text}: no rule allows it.")
