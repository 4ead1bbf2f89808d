"""The caller of a request, and the topics that belong to a part of the service itself.

The topics `system:_…` are the service's own: their messages mean something to one of its parts,
which alone may write, change or delete them. Everybody may read them. The rule guards against
accidents: a caller is taken to be what it says it is.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field

from tms.core.errors import NotPermitted
from tms.core.values.topic import TopicId

PART_HEADER = "TMS-Part"
"""Names the part of the service that sends a request of REST."""

SYSTEM = "system"
"""The namespace of the service's own topics. Topics of CDAP's are in it too, without `_`."""
REGISTRY = "registry"
"""The part that keeps schemas."""
AUDIT = "audit"
"""The part that tells who was refused, and who changed what."""
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
    """The name that was authenticated; None if nobody has said who it is."""
    part: str | None = None
    """The part of the service that asks; None if it is none of them."""
    groups: frozenset[str] = frozenset()
    """The groups that it is in."""
    may_end_any: bool = False
    """Whether it may end the transactions of others, and publish in them (`transact-any`)."""
    has_all: bool = False
    """Whether no limit of one principal is for it: a superuser, or a server of the cluster."""
    may_on_subject: Callable[[str, str], bool] | None = field(default=None, compare=False)
    """Whether it may do an action to a subject of the registry; None: any to all of them."""
    on_anothers: Callable[[str], None] | None = field(default=None, compare=False)
    """Told what it acts on that is another's, in words, if it may end any. From any thread."""

    def acts_on(self, what: str) -> None:
        """Take note that it acts on something that is another's."""
        if self.on_anothers is not None:
            self.on_anothers(what)

    @property
    def sharer(self) -> str | None:
        """The principal whose use is counted (`shares`); None: it may use everything."""
        return None if self.has_all else self.principal


ANYBODY = Caller()
ASKING: ContextVar[Caller] = ContextVar("asking", default=ANYBODY)
"""The caller of the request that this task works for, if there is one. For what is shared deep
below that, and for nothing that is permitted or not: that is told as an argument."""


def check_may_change(caller: Caller, topic_id: TopicId) -> None:
    """Raise `NotPermitted` (topic_of_the_service) if a topic is not the caller's to write."""
    if topic_id.namespace != SYSTEM or not topic_id.name.startswith("_"):
        return
    if caller.part is None or topic_id.name not in _TOPICS.get(caller.part, ()):
        raise NotPermitted("topic_of_the_service", topic=str(topic_id), part=caller.part)
