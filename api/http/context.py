"""What the handlers of one application work with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry

from api.http.access_control import AccessControl
from api.http.body_memory import BodyMemory
from api.http.callers import Callers
from api.http.clock_metrics import ClockMetrics
from api.http.errors import ErrorForm, answer_of
from api.http.no_services import NoServices, not_ready
from tms.core.clock import Clock
from tms.core.cluster import Cluster
from tms.core.limits import Limits
from tms.core.services import ServerServices
from tms.core.trusted_clock import TrustedClock, trusted

TopicInfo = Literal["seed", "flat"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the handlers of one application work with; `context_of` makes it."""

    services: ServerServices
    check_ready: Callable[[], None]
    """Raises `Unavailable` if a publish would not be taken now."""
    limits: Limits
    clock: TrustedClock
    registry: CollectorRegistry
    topic_info: TopicInfo
    body_memory: BodyMemory
    openapi: bytes
    callers: Callers
    error_form: ErrorForm
    """How errors are answered; another interface than TMS's own has another form."""
    cluster: Cluster | None
    """None where the server is alone."""
    access: AccessControl | None
    """None where everybody may do everything."""


def context_of(
    limits: Limits,
    services: ServerServices | None = None,
    *,
    check_ready: Callable[[], None] = not_ready,
    clock: Clock | None = None,
    registry: CollectorRegistry | None = None,
    topic_info: TopicInfo = "seed",
    openapi: bytes = b"",
    callers: Callers | None = None,
    error_form: ErrorForm = answer_of,
    cluster: Cluster | None = None,
    access: AccessControl | None = None,
) -> Context:
    """Return what handlers work with; metrics of its clock are added to `registry`.

    Without `services`, whoever asks for one is told that it is not here; then `check_ready` says
    whether a publish would be taken.
    """
    if services is not None:
        check_ready = services.messaging.check_ready
    registry = registry or CollectorRegistry()
    trusted_clock = trusted(clock, limits)
    ClockMetrics(registry, trusted_clock)
    return Context(
        services=services or NoServices(),
        check_ready=check_ready,
        limits=limits,
        clock=trusted_clock,
        registry=registry,
        topic_info=topic_info,
        body_memory=BodyMemory(limits.queue_bytes_max),
        openapi=openapi,
        callers=callers or Callers(),
        error_form=error_form,
        cluster=cluster,
        access=access,
    )
