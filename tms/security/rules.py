"""Rules, each of which allows or denies actions on resources to a principal.

    rule     := principal | group:NAME | *,  allow | deny,  actions,  what
    what     := namespace pattern, topic pattern [, subscription pattern] | subject pattern | server
    pattern  := literal | prefix* | *

1. Deny beats allow, and anything that no rule allows is denied. The order of rules is irrelevant.
2. A rule with a subscription pattern applies only to matching subscriptions.
3. All of a namespace, or all subjects, are matched by the pattern `*` only.
4. A caller with any permission on a topic may also describe it, unless a rule denies that.
5. Only rules that name `system` and whose topic pattern begins with `_` match the service's own
   topics, `system:_…`; wider patterns do not.
"""

from dataclasses import dataclass
from enum import StrEnum

from tms.core.values.caller import SYSTEM
from tms.security.resources import ACTIONS_OF, Action, Kind, Resource

EVERYBODY = "*"
GROUP = "group:"
ANY = "*"
ANONYMOUS = "anonymous"
"""The principal of callers without credentials. Rules for everybody do not apply to it."""
_NAME_CHARS_MAX = 255
OWN = "_"
"""The first character of the names of the service's own topics."""


class InvalidRule(ValueError):
    """Raised for an invalid rule; it says what is expected."""


class Effect(StrEnum):
    """The effect of a rule."""

    ALLOW = "allow"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated caller."""

    principal: str
    groups: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """The names whose rules may apply to it."""
        if self.principal == ANONYMOUS:
            return (ANONYMOUS,)
        return (self.principal, *(f"{GROUP}{group}" for group in sorted(self.groups)), EVERYBODY)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. Making one raises `InvalidRule` if it is not valid."""

    id: str
    who: str
    """A principal, `group:NAME`, or `*` for every authenticated caller."""
    effect: Effect
    actions: frozenset[Action]
    kind: Kind
    namespace: str = ""
    """For topics: a pattern; empty for other kinds."""
    name: str = ""
    """For topics and subjects: a pattern; empty for the server."""
    subscription: str = ANY
    """A pattern, for `subscribe`."""

    def __post_init__(self) -> None:
        """Check that the fields fit together."""
        if not self.who or self.who == GROUP or len(self.who) > _NAME_CHARS_MAX:
            raise _wrong(self, who=self.who, expected="a principal, group:NAME or *")
        may_be = ACTIONS_OF[self.kind]
        if not self.actions or not self.actions <= may_be:
            wrong_names = ", ".join(sorted(self.actions - may_be)) or "none"
            raise _wrong(self, actions=wrong_names, expected=f"some of {', '.join(sorted(may_be))}")
        patterns = {"namespace": self.namespace, "name": self.name}
        fields = {Kind.TOPIC: {"namespace", "name"}, Kind.SUBJECT: {"name"}, Kind.SERVER: set()}
        for field, pattern in patterns.items():
            if bool(pattern) != (field in fields[self.kind]):
                raise _wrong(self, field=field, expected=f"a field of a rule on a {self.kind}")
        for pattern in (self.namespace, self.name, self.subscription):
            if "*" in pattern[:-1]:
                raise _wrong(
                    self, pattern=pattern, expected="a name, a prefix that ends with *, or *"
                )
        if self.subscription != ANY and not self.actions <= {Action.SUBSCRIBE, Action.TAKE}:
            raise _wrong(
                self,
                subscription=self.subscription,
                expected="subscribe or take alone",
            )

    def __str__(self) -> str:
        """Return it as one line."""
        on = {Kind.TOPIC: f"{self.namespace}:{self.name}", Kind.SUBJECT: f"subject {self.name}"}
        text = f"{self.effect} {self.who} {','.join(sorted(self.actions))} on "
        text += on.get(self.kind, "the server")
        return text if self.subscription == ANY else f"{text}, subscription {self.subscription}"


def _wrong(rule: Rule, **detail: object) -> InvalidRule:
    text = ", ".join(f"{name}={value}" for name, value in detail.items())
    return InvalidRule(f"rule {rule.id}: {text}")


def is_topic_of_service(resource: Resource) -> bool:
    """Whether a topic is the service's own."""
    is_named = resource.namespace == SYSTEM and (resource.name or "").startswith(OWN)
    return resource.kind is Kind.TOPIC and is_named
