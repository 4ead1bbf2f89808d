"""Why somebody may do something or may not, in words."""

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
    """Return what an action would be done to, by the names of which it needs some.

    No topic means all of the namespace, no subject all of them.
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
    """Return whether somebody may do something by a book, and why."""
    ruling = book.decide(identity, action, resource, subscription)
    may = f"may {'' if ruling.is_allowed else 'not '}{action}"
    told = f"{identity.principal} {may} on {resource}"
    if book.is_superuser(identity):
        return Explanation(ruling, f"{told}: it is a superuser.")
    if ruling.rule is not None:
        return Explanation(ruling, f"{told}, by rule {ruling.rule.id}.")
    return Explanation(ruling, f"{told}: no rule allows it.")
