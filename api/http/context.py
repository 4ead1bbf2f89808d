"""The context of the handlers of one application."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict, Unpack

from prometheus_client import CollectorRegistry

from api.http.body_memory import BodyMemory
from api.http.clock_metrics import ClockMetrics
from api.http.door.access_control import AccessControl
from api.http.door.callers import Callers
from api.http.door.endings import Endings
from api.http.errors import ErrorForm, answer_of
from api.http.memory_metrics import MemoryMetrics
from api.http.no_services import NoServices, not_ready
from tms.core.limits import Limits
from tms.core.runtime.clock import Clock
from tms.core.runtime.memory_kinds import MemoryEntries
from tms.core.runtime.trusted_clock import TrustedClock, trusted
from tms.core.services.cluster import Cluster
from tms.core.services.server_services import ServerServices
from tms.core.values.backups import Backups
from tms.core.values.shards import Sharding
from tms.watch.watch import Watch

TopicInfo = Literal["seed", "flat"]
MakeWish = Callable[[Mapping[int, int | None]], Awaitable[Mapping[int, int]]]
"""Records which server is to lead each shard, None for any; returns all such wishes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The context of the handlers of one application; `context_of` creates it."""

    services: ServerServices
    """The services; in a request for a shard that is led here, those of that shard."""
    check_ready: Callable[[], None]
    """Raises `Unavailable` if a publish would not be accepted now."""
    limits: Limits
    clock: TrustedClock
    registry: CollectorRegistry
    memory: MemoryEntries
    """Counts what the server keeps in memory."""
    topic_info: TopicInfo
    body_memory: BodyMemory
    openapi: Callable[[], bytes]
    """Returns the OpenAPI document; encoded when it is first called."""
    callers: Callers
    error_form: ErrorForm
    """Builds the answers to errors; an interface other than TMS's own has another form."""
    cluster: Cluster | None
    """None if the server is alone."""
    sharding: Sharding | None
    """The way in which the store is divided; None if it has one shard."""
    wish: MakeWish | None
    """None if no shards are shared."""
    instance_id: int | None
    """The number of this server in its cluster; None if it is alone."""
    access: AccessControl | None
    """None if everybody may do everything."""
    backups: Backups | None
    """None if the server takes none."""
    watch: Watch
    """The watch of the services; the code that opened them starts it."""


class Options(TypedDict, total=False):
    """Keyword arguments of functions that create an application."""

    registry: CollectorRegistry
    """Registers the application's metrics."""
    clock: Clock | None
    topic_info: TopicInfo
    callers: Callers | None
    cluster: Cluster | None
    sharding: Sharding | None
    """The way in which the store is divided; None if it has one shard."""
    wish: MakeWish | None
    """None if no shards are shared."""
    instance_id: int | None
    """The number of this server in its cluster; None if it is alone."""
    access: AccessControl | None
    backups: Backups | None
    certificates: Sequence[str]
    """Files whose certificates the server uses."""


def context_of(
    limits: Limits,
    services: ServerServices | None = None,
    *,
    check_ready: Callable[[], None] = not_ready,
    openapi: Callable[[], bytes] = bytes,
    error_form: ErrorForm = answer_of,
    **options: Unpack[Options],
) -> Context:
    """Return the context of handlers.

    Without `services`, access to each service raises `NoLeader`, and `check_ready` says whether a
    publish would be accepted.
    """
    if services is not None:
        check_ready = services.messaging.check_ready
    registry = options.get("registry") or CollectorRegistry()
    clock = trusted(options.get("clock"), limits)
    ClockMetrics(registry, clock)
    cluster = options.get("cluster")
    access, served = options.get("access"), services or NoServices()
    endings = Endings(access, options.get("certificates", ()))
    return Context(
        services=served,
        check_ready=check_ready,
        limits=limits,
        clock=clock,
        registry=registry,
        memory=MemoryMetrics(registry).entries,
        topic_info=options.get("topic_info", "seed"),
        body_memory=BodyMemory(limits.queue_bytes_max),
        openapi=openapi,
        callers=options.get("callers") or Callers(),
        error_form=error_form,
        cluster=cluster,
        sharding=options.get("sharding"),
        wish=options.get("wish"),
        instance_id=options.get("instance_id"),
        access=access,
        backups=options.get("backups"),
        watch=Watch(served, registry, clock, endings, cluster),
    )
