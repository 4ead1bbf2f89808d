"""An operation as the door sees it: its name, the action that a caller needs, and the resource."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from tms.security.resources import ACTIONS_OF, SERVER, Action, Kind, Resource, topic_resource


class DecidedBy(Enum):
    """The part of a request or answer by which access to an operation is decided."""

    PATH = auto()
    """By the topic, namespace or subject in its path; without one, it is done to the server."""
    BODY = auto()
    """By the topics that its body names; its head needs one in the namespace that is allowed."""
    ANSWER = auto()
    """Every authenticated caller may ask. The answer has only the things that they may see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """The needs of an operation that the door checks."""

    name: str
    """The operationId, and the metrics' label."""
    action: Action | None
    """The action that the caller must be allowed; None: everybody may, authenticated or not."""
    or_action: Action | None = None
    """Another action that allows it as well."""
    decided_by: DecidedBy = DecidedBy.PATH
    resource: Callable[[Mapping[str, str]], Resource] | None = None
    """The resource, from the decoded parts of the path; None: the default of the action's kind."""
    is_always_audited: bool = False
    """Whether each use is told by the audit, though its action is not one of `ALWAYS`: it drops
    what nobody can bring back."""

    def resource_of(self, names: Mapping[str, str]) -> Resource:
        """Return what it is done to, by the decoded parts of its path.

        A handler whose body names more tells them (`Exchange.touches`).
        """
        if self.resource is not None:
            return self.resource(names)
        if self.action in ACTIONS_OF[Kind.TOPIC] and "namespace" in names:
            return topic_resource(names["namespace"], names.get("topic"))
        return SERVER
