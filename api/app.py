"""Puts the endpoints together into one application, found by one table of routes."""

import json
from collections.abc import Callable
from typing import cast

from prometheus_client import CollectorRegistry

from api.cluster.forwarding import Forwarder
from api.cluster.standby import Standby
from api.cluster.storeless import Storeless
from api.http.access_control import AccessControl
from api.http.application import Application
from api.http.body_memory import BodyMemory
from api.http.callers import Callers
from api.http.clock_metrics import ClockMetrics
from api.http.context import Context, TopicInfo
from api.http.errors import answer_of
from api.http.metrics import RestMetrics
from api.http.operation import RESOURCES, Operation
from api.openapi.service import service_document
from api.resources import (
    cleanup,
    cluster,
    debug,
    documentation,
    explained,
    grants,
    health,
    messages,
    namespaces,
    owners,
    poll,
    ranges,
    subscriptions,
    topics,
    transaction_admin,
    transactions,
)
from api.resources import clock as clock_resource
from api.resources.paths import CLOCK, CLOCK_ACCEPT, CLUSTER
from tms import __version__
from tms.core.clock import Clock
from tms.core.cluster import Cluster
from tms.core.limits import Limits
from tms.core.services import ServerServices
from tms.core.trusted_clock import TrustedClock, trusted

OPERATIONS: tuple[Operation, ...] = (
    *namespaces.OPERATIONS,
    *topics.OPERATIONS,
    *messages.OPERATIONS,
    *poll.OPERATIONS,
    *ranges.OPERATIONS,
    *owners.OPERATIONS,
    *transaction_admin.OPERATIONS,
    *transactions.OPERATIONS,
    *subscriptions.OPERATIONS,
    *grants.OPERATIONS,
    *explained.OPERATIONS,
    *cleanup.OPERATIONS,
    *cluster.OPERATIONS,
    *clock_resource.OPERATIONS,
    *debug.OPERATIONS,
    *health.OPERATIONS,
    *documentation.OPERATIONS,
)
_INTERFACE = "1"
_OF_THE_PROCESS = ("/health", "/ready", "/metrics")
_OF_THE_SERVER = (*_OF_THE_PROCESS, CLUSTER, CLOCK, CLOCK_ACCEPT)
"""Paths that each server of a cluster answers itself, also if it is not the leader."""


def _clock_of(clock: Clock | None, limits: Limits, registry: CollectorRegistry) -> TrustedClock:
    """Return what an application goes by, with its metrics in `registry`."""
    found = trusted(clock, limits)
    ClockMetrics(registry, found)
    return found


def create_app(
    services: ServerServices,
    limits: Limits,
    *,
    registry: CollectorRegistry,
    topic_info: TopicInfo = "seed",
    clock: Clock | None = None,
    cluster_state: Cluster | None = None,
    callers: Callers | None = None,
    access: AccessControl | None = None,
) -> Application:
    """Return the application that serves `services`; its metrics are added to `registry`."""
    metrics = RestMetrics()
    registry.register(metrics)
    context = Context(
        services=services,
        limits=limits,
        clock=_clock_of(clock, limits, registry),
        registry=registry,
        topic_info=topic_info,
        body_memory=BodyMemory(limits.queue_bytes_max),
        openapi=json.dumps(service_document(OPERATIONS, _told_version(access)), indent=1).encode(),
        callers=callers or Callers(),
        error_form=answer_of,
        cluster=cluster_state,
        access=access,
    )
    return Application(context, metrics, OPERATIONS)


def _told_version(access: AccessControl | None) -> str:
    """Return the version that the document tells, which is the interface's if strangers read it."""
    is_open = access is not None and not all(map(access.guards, documentation.OPERATIONS))
    return _INTERFACE if is_open else __version__


def create_storeless(
    limits: Limits,
    check_ready: Callable[[], None],
    *,
    clock: Clock | None = None,
    registry: CollectorRegistry,
    callers: Callers | None = None,
    access: AccessControl | None = None,
) -> Application:
    """Return the application of a server without a store: it tells of itself alone."""
    metrics = RestMetrics()
    registry.register(metrics)
    context = Context(
        services=cast("ServerServices", Storeless(check_ready)),
        limits=limits,
        clock=_clock_of(clock, limits, registry),
        registry=registry,
        topic_info="seed",
        body_memory=BodyMemory(limits.queue_bytes_max),
        openapi=b"",
        callers=callers or Callers(),
        error_form=answer_of,
        access=access,
    )
    own = [operation for operation in OPERATIONS if operation.path in _OF_THE_PROCESS]
    return Application(context, metrics, own)


def create_standby(
    forwarder: Forwarder,
    cluster_state: Cluster,
    limits: Limits,
    *,
    clock: Clock | None = None,
    registry: CollectorRegistry,
    callers: Callers | None = None,
    access: AccessControl | None = None,
) -> Standby:
    """Return the application of a server that does not lead; its metrics go to `registry`."""
    own = [operation for operation in OPERATIONS if operation.path in _OF_THE_SERVER]
    return Standby(
        own,
        forwarder,
        cluster_state,
        limits,
        clock=_clock_of(clock, limits, registry),
        registry=registry,
        callers=callers,
        access=access,
        open_operations=[each for each in OPERATIONS if not each.path.startswith(RESOURCES)],
    )
