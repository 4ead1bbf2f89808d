"""The context of the handlers of one application."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from prometheus_client import CollectorRegistry

from api.http.body_memory import BodyMemory
from api.http.callers import Callers
from tms.core.cluster import Cluster
from tms.core.limits import Limits
from tms.core.services import ServerServices
from tms.core.trusted_clock import TrustedClock

if TYPE_CHECKING:
    from api.http.access_control import AccessControl

TopicInfo = Literal["seed", "flat"]


class ErrorAnswer(NamedTuple):
    """An error as it is answered."""

    status: int
    body: bytes
    content_type: bytes
    headers: Iterable[tuple[bytes, bytes]]
    is_our_fault: bool = False
    """Whether whoever looks after the server must know."""


ErrorForm = Callable[[Exception], ErrorAnswer]


@dataclass(frozen=True, slots=True)
class Context:
    """The context of the handlers of one application."""

    services: ServerServices
    limits: Limits
    clock: TrustedClock
    registry: CollectorRegistry
    topic_info: TopicInfo
    body_memory: BodyMemory
    openapi: bytes
    callers: Callers
    error_form: ErrorForm
    """How errors are answered; another interface than TMS's own has another form."""
    cluster: Cluster | None = None
    """None where the server is alone."""
    access: "AccessControl | None" = None
    """None where everybody may do everything."""
