"""The registry as an application, and where it stands beside others."""

from typing import cast

from prometheus_client import CollectorRegistry

from api.http.access_control import AccessControl
from api.http.app import App
from api.http.application import Application
from api.http.body_memory import BodyMemory
from api.http.callers import Callers
from api.http.context import Context, ErrorAnswer
from api.http.endpoint import Endpoint
from api.http.metrics import RestMetrics
from api.http.operation import Operation
from api.http.router import RouteMatch
from api.registry.about import AboutHandlers, encoded
from api.registry.compatibility import CompatibilityHandlers
from api.registry.document import registry_document
from api.registry.errors import refusal_of
from api.registry.forwarding import PREFIX, MasterForwarding
from api.registry.resources import with_resources
from api.registry.schemas import SchemaHandlers
from api.registry.settings import SettingHandlers
from api.registry.subjects import SubjectHandlers
from api.registry.versions import VersionHandlers
from tms.core.limits import Limits
from tms.core.services import ServerServices
from tms.core.trusted_clock import trusted
from tms.registry.service import Registry

CONTEXT = "/contexts/{context}"
"""Below it subjects, ids and settings are of that context."""


def operations_of(registry: Registry) -> tuple[Operation, ...]:
    """Return the table of the registry's operations."""
    operations = (
        *SchemaHandlers(registry).operations(),
        *SubjectHandlers(registry).operations(),
        *VersionHandlers(registry).operations(),
        *CompatibilityHandlers(registry).operations(),
        *SettingHandlers(registry).operations(),
        *AboutHandlers(registry).operations(),
    )
    return with_resources(registry, operations)


def create_registry_app(
    registry: Registry,
    limits: Limits,
    metrics: RestMetrics,
    callers: Callers | None = None,
    forwarding: MasterForwarding | None = None,
    *,
    access: AccessControl | None = None,
) -> Application:
    """Return the application that serves a registry; its requests are counted in `metrics`.

    With `forwarding`, the master does what is written.
    """
    operations = operations_of(registry)
    document = registry_document(operations)
    if forwarding is not None:
        operations = forwarding.over(operations)
    context = Context(
        services=cast("ServerServices", None),  # its handlers have the registry
        limits=limits,
        clock=trusted(None, limits),
        registry=CollectorRegistry(),
        topic_info="seed",
        body_memory=BodyMemory(limits.queue_bytes_max),
        openapi=encoded(document),
        callers=callers or Callers(),
        error_form=refusal_of,
        access=access,
    )
    return Application(context, metrics, operations, prefixes=[CONTEXT])


class WithRegistry:
    """An application, and the registry below `/v1/registry`."""

    def __init__(self, main: App, registry: App) -> None:
        """Have `registry` answer what is below its prefix, and `main` all else."""
        self._main = main
        self._registry = registry

    def find(self, method: str, path: str) -> RouteMatch[Endpoint]:
        """Return where a request leads."""
        if path.startswith(PREFIX):
            below = path[len(PREFIX) :]
            if not below or below[0] == "/":
                return self._registry.find(method, below or "/")
        return self._main.find(method, path)

    def error(self, error: Exception) -> ErrorAnswer:
        """Return the answer to what is no request."""
        return self._main.error(error)
