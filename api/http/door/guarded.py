"""An operation as access control sees it: its name, the action that it needs, and the resource."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from tms.security.resources import ACTIONS_OF, SERVER, Action, Kind, Resource, topic_resource


class DecidedBy(Enum):
    """The part of a request or answer that decides access to an operation."""

    PATH = auto()
    """The topic, namespace or subject in its path; without one, the resource is the server."""
    BODY = auto()
    """The topics that its body names; before that, some topic of the namespace must be allowed."""
    ANSWER = auto()
    """Every authenticated caller is admitted. The answer has only the things that they may see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """The requirements of an operation that access control checks."""

    name: str
    """The operationId, and the metrics' label."""
    action: Action | None
    """The action that the caller must be allowed; None if everybody may, authenticated or not."""
    or_action: Action | None = None
    """Another action that allows it as well."""
    decided_by: DecidedBy = DecidedBy.PATH
    resource: Callable[[Mapping[str, str]], Resource] | None = None
    """Returns the resource from the decoded path; None for the default of the action's kind."""
    is_always_audited: bool = False
    """Whether each use is audited, although its action is not one of `ALWAYS`: it drops something
    that cannot be restored."""

    def resource_of(self, names: Mapping[str, str]) -> Resource:
        """Return the resource that the decoded parts of its path name.

        A handler whose body names more passes them to `Exchange.touches`.
        """
        if self.resource is not None:
            return self.resource(names)
        if self.action in ACTIONS_OF[Kind.TOPIC] and "namespace" in names:
            return topic_resource(names["namespace"], names.get("topic"))
        return SERVER
