"""Assembles the endpoints into one application with one table of routes."""

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Unpack

from api.http.application import Application
from api.http.context import Context, Options, context_of
from api.http.door.access_control import AccessControl
from api.http.exchange import topic_id_of
from api.http.metrics import RestMetrics
from api.http.operation import Operation
from api.openapi.document import encoded
from api.openapi.service import service_document
from api.resources import (
    backups,
    cleanup,
    cluster,
    dead_letters,
    debug,
    documentation,
    explained,
    grants,
    group_interventions,
    groups,
    health,
    messages,
    namespaces,
    owners,
    poll,
    ranges,
    raw_messages,
    schedules,
    status,
    stream,
    subscriptions,
    topics,
    transaction_admin,
    transactions,
)
from api.resources import clock as clock_resource
from tms import __version__
from tms.core.limits import Limits
from tms.core.services.server_services import ServerServices

OPERATIONS: tuple[Operation, ...] = (
    *namespaces.OPERATIONS,
    *topics.OPERATIONS,
    *messages.OPERATIONS,
    *raw_messages.OPERATIONS,
    *schedules.OPERATIONS,
    *poll.OPERATIONS,
    *stream.OPERATIONS,
    *ranges.OPERATIONS,
    *owners.OPERATIONS,
    *transaction_admin.OPERATIONS,
    *transactions.OPERATIONS,
    *subscriptions.OPERATIONS,
    *groups.OPERATIONS,
    *group_interventions.OPERATIONS,
    *dead_letters.OPERATIONS,
    *grants.OPERATIONS,
    *explained.OPERATIONS,
    *cleanup.OPERATIONS,
    *backups.OPERATIONS,
    *cluster.OPERATIONS,
    *clock_resource.OPERATIONS,
    *debug.OPERATIONS,
    *status.OPERATIONS,
    *health.OPERATIONS,
    *documentation.OPERATIONS,
)
_INTERFACE = "1"
_OF_THE_PROCESS = ("/health", "/ready", "/metrics")


def create_app(services: ServerServices, limits: Limits, **options: Unpack[Options]) -> Application:
    """Return the application that serves `services`."""
    openapi = partial(_document, _shown_version(options.get("access")))
    return _application(context_of(limits, services, openapi=openapi, **options), OPERATIONS)


@cache
def _document(version: str) -> bytes:
    """Return the OpenAPI document, encoded on first use: that takes 50 ms, and few request it."""
    return encoded(service_document(OPERATIONS, version))


def _shown_version(access: AccessControl | None) -> str:
    """Return the version in the document: only the interface's if strangers may read it."""
    is_open = access is not None and not all(map(access.guards, documentation.OPERATIONS))
    return _INTERFACE if is_open else __version__


def _application(context: Context, operations: Iterable[Operation]) -> Application:
    metrics = RestMetrics()
    context.registry.register(metrics)
    app = Application(context, metrics, operations)
    memory, access = context.memory, context.access
    memory.show("paths", app.routes.paths_kept)
    memory.show("topic_names", lambda: topic_id_of.cache_info().currsize)
    if access is not None:
        memory.show("decisions", access.decisions_kept)
        memory.show("sessions", access.sessions_kept)
    return app


def create_storeless(
    limits: Limits, check_ready: Callable[[], None], **options: Unpack[Options]
) -> Application:
    """Return the application of a server without a store: it answers only about itself."""
    own = [operation for operation in OPERATIONS if operation.path in _OF_THE_PROCESS]
    return _application(context_of(limits, check_ready=check_ready, **options), own)
