"""What the handlers of one application work with."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from prometheus_client import CollectorRegistry

from api.http.body_memory import BodyMemory
from api.http.callers import Callers
from tms.core.caller import Caller
from tms.core.clock import Clock
from tms.core.cluster import Cluster
from tms.core.limits import Limits
from tms.core.services import ServerServices
from tms.core.topic import TopicId

if TYPE_CHECKING:
    from api.http.operation import Operation

TopicInfo = Literal["seed", "flat"]


class ErrorAnswer(NamedTuple):
    """An error as it is answered."""

    status: int
    body: bytes
    content_type: bytes
    headers: Iterable[tuple[bytes, bytes]]


ErrorForm = Callable[[Exception], ErrorAnswer]

Guard = Callable[[Caller, "Operation", Sequence[TopicId]], None]
"""Says whether a caller may do an operation on topics; raises a `TmsError` if not."""


@dataclass(frozen=True, slots=True)
class Context:
    """What the handlers of one application work with."""

    services: ServerServices
    limits: Limits
    clock: Clock
    registry: CollectorRegistry
    topic_info: TopicInfo
    body_memory: BodyMemory
    openapi: bytes
    callers: Callers
    error_form: ErrorForm
    """How errors are answered; another interface than TMS's own has another form."""
    guards: tuple[Guard, ...] = ()
    """Asked at the head of each request, with the topics of its path, and again once its body has
    named more."""
    cluster: Cluster | None = None
    """None where the server is alone."""
