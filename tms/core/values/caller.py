"""The caller of a request, and the topics that belong to a part of the service itself.

The topics `system:_…` are the service's own: their messages mean something to one of its parts, and
only that part may write, change or delete them. Everybody may read them. The rule guards against
accidents: a caller's claim to be such a part is believed.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field

from tms.core.errors import NotPermitted
from tms.core.values.topic import TopicId

PART_HEADER = "TMS-Part"
"""A header that names the part of the service that sends a REST request."""

SYSTEM = "system"
"""The namespace of the service's own topics. It also has CDAP's topics, without `_`."""
REGISTRY = "registry"
"""The part that keeps schemas."""
AUDIT = "audit"
"""The part that reports who was refused and who changed what."""
AUDIT_TOPIC = TopicId(SYSTEM, "_audit")
_TOPICS: Mapping[str, frozenset[str]] = {
    REGISTRY: frozenset(("_schemas", "_schemas_members")),
    AUDIT: frozenset((AUDIT_TOPIC.name,)),
}
"""The names of each part's topics."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller, as far as it is known."""

    principal: str | None = None
    """The authenticated name; None for an anonymous caller."""
    part: str | None = None
    """The part of the service that calls; None if it is not a part of it."""
    groups: frozenset[str] = frozenset()
    """The groups that it is in."""
    may_end_any: bool = False
    """Whether it may end the transactions of others, and publish in them (`transact-any`)."""
    has_all: bool = False
    """Whether it is exempt from a principal's limits: a superuser, or a server of the cluster."""
    may_on_subject: Callable[[str, str], bool] | None = field(default=None, compare=False)
    """Whether it may do an action to a registry subject; None if it may do any to all."""
    on_anothers: Callable[[str], None] | None = field(default=None, compare=False)
    """Called, from any thread, with a description of another's thing that it acts on, if it may end
    any transaction.
    """

    def acts_on(self, description: str) -> None:
        """Record that it acts on something that belongs to another principal."""
        if self.on_anothers is not None:
            self.on_anothers(description)

    @property
    def sharer(self) -> str | None:
        """The principal that pays for shared resources (`shares`); None if it has no share."""
        return None if self.has_all else self.principal


ANYBODY = Caller()
ASKING: ContextVar[Caller] = ContextVar("asking", default=ANYBODY)
"""The caller of the request that this task serves, if any. It is for shared resources deep below;
permissions get the caller as an argument.
"""


def check_may_change(caller: Caller, topic_id: TopicId) -> None:
    """Raise `NotPermitted` (topic_of_the_service) if a topic is not the caller's to write."""
    if topic_id.namespace != SYSTEM or not topic_id.name.startswith("_"):
        return
    if caller.part is None or topic_id.name not in _TOPICS.get(caller.part, ()):
        raise NotPermitted("topic_of_the_service", topic=str(topic_id), part=caller.part)
