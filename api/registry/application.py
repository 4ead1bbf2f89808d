"""The registry as an application."""

from collections.abc import Sequence
from functools import cache, partial
from typing import Unpack

from api.http.application import Application
from api.http.context import Options, context_of
from api.http.metrics import RestMetrics
from api.http.operation import Operation
from api.openapi.document import encoded
from api.registry.about import AboutHandlers
from api.registry.compatibility import CompatibilityHandlers
from api.registry.document import registry_document
from api.registry.errors import refusal_of
from api.registry.forwarding import MasterForwarding
from api.registry.resources import with_resources
from api.registry.schemas import SchemaHandlers
from api.registry.settings import SettingHandlers
from api.registry.subjects import SubjectHandlers
from api.registry.versions import VersionHandlers
from tms.core.limits import Limits
from tms.registry.log.service import Registry

CONTEXT = "/contexts/{context}"
"""Subjects, ids and settings below it belong to that context."""


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


def _document(operations: Sequence[Operation]) -> bytes:
    return encoded(registry_document(operations))


def create_registry_app(
    registry: Registry,
    limits: Limits,
    metrics: RestMetrics,
    forwarding: MasterForwarding | None = None,
    /,
    **options: Unpack[Options],
) -> Application:
    """Return the application that serves a registry; its requests are counted in `metrics`.

    With `forwarding`, writes are forwarded to the master.
    """
    operations = operations_of(registry)
    openapi = cache(partial(_document, operations))
    if forwarding is not None:
        operations = forwarding.over(operations)
    context = context_of(limits, openapi=openapi, error_form=refusal_of, **options)
    return Application(context, metrics, operations, prefix=CONTEXT)
