"""What each operation of the registry is done to, for those who decide whether somebody may.

1. An operation on a subject is done to it under the one name that stands for it (`qualified`). One
   that reads is done to what an alias leads to.
2. What has no subject in its path is done to all of them, and needs a rule for `*`.
3. Lists, and schemas by id or guid, have only what is of subjects that somebody may read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from api.http.exchange import Exchange
from api.http.operation import DecidedBy, Operation
from tms.registry.service import Registry
from tms.registry.state import Version
from tms.registry.subjects import check_context, qualified, resolved_in
from tms.security.resources import Action, Resource, subject_resource

_BY_ANSWER = frozenset(
    (
        "contexts",
        "ids_of_guid",
        "registry",
        "registry_id",
        "registry_openapi",
        "registry_status",
        "registry_version",
        "schema_by_guid",
        "schema_by_id",
        "schema_text_by_id",
        "schema_types",
        "schemas",
        "subjects",
        "subjects_of_id",
        "versions_of_id",
    )
)


def with_resources(registry: Registry, operations: Iterable[Operation]) -> tuple[Operation, ...]:
    """Return operations that say what they are done to."""
    return tuple(
        replace(each, decided_by=DecidedBy.ANSWER)
        if each.name in _BY_ANSWER
        else replace(each, resource=partial(_resource, registry, each.action))
        for each in operations
    )


def _resource(registry: Registry, action: Action | None, names: Mapping[str, str]) -> Resource:
    """Return what an operation is done to. Raises `RegistryError` (42208)."""
    given, context = names.get("subject", ""), names.get("context")
    if context is not None:
        given = resolved_in(given, check_context(context))
    subject = registry.state.meant(given) if action is Action.READ else qualified(given)
    return subject_resource(subject or None)


def may_read(exchange: Exchange, subject: str) -> bool:
    """Whether who asks may read a subject."""
    return exchange.may(Action.READ, subject_resource(subject))


def check_any(exchange: Exchange, uses: Iterable[Version]) -> None:
    """Raise `NotPermitted` unless who asks may read a subject of these versions."""
    if exchange.admission is None:
        return
    subjects = sorted({version.subject for version in uses})
    if not any(may_read(exchange, subject) for subject in subjects):
        exchange.check_access(Action.READ, subject_resource(subjects[0]))
