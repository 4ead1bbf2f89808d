"""What each operation of the registry is done to, for those who decide whether somebody may.

1. An operation on a subject is done to it under the one name that stands for it (`qualified`). One
   that reads versions is done to what an alias leads to; as that may change before they are looked
   up, it is asked for once more by what they are looked up in (`readable`).
2. What has no subject in its path is done to all of them, and needs a rule for `*`.
3. Lists, and schemas by id or guid, have only what is of subjects that somebody may read.
4. A schema that is sent may refer only to subjects that somebody may read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from api.http.exchange import Exchange
from api.http.operation import DecidedBy, Operation
from tms.registry.knowledge import Knowledge
from tms.registry.service import Registry
from tms.registry.sources import Submitted
from tms.registry.state import State, Version
from tms.registry.subjects import check_context, context_of, qualified, resolved_in
from tms.security.resources import Action, Resource, subject_resource

A = TypeVar("A")
S = TypeVar("S", State, Knowledge)
_OF_ITS_NAME = frozenset(("subject_config", "subject_mode"))
"""What reads the settings of a name, which are not those of its alias."""
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
        else replace(each, resource=partial(_resource, registry, each))
        for each in operations
    )


def _resource(registry: Registry, operation: Operation, names: Mapping[str, str]) -> Resource:
    """Return what an operation is done to. Raises `RegistryError` (42208)."""
    given, context = names.get("subject", ""), names.get("context")
    if context is not None:
        given = resolved_in(given, check_context(context))
    has_alias = operation.action is Action.READ and operation.name not in _OF_ITS_NAME
    subject = registry.state.meant(given) if has_alias else qualified(given)
    return subject_resource(subject or None)


def may_read(exchange: Exchange, subject: str) -> bool:
    """Whether who asks may read a subject."""
    return exchange.may(Action.READ, subject_resource(subject))


def readable(
    exchange: Exchange, given: str, look: Callable[[S], A], submitted: Submitted | None = None
) -> Callable[[S], A]:
    """Return `look`, but it raises `NotPermitted` unless who asks may read what it looks up.

    `given` is the subject that is asked for, `submitted` a schema that is sent with it.
    """
    if exchange.admission is None:
        return look

    def look_if_allowed(known: S) -> A:
        state = known if isinstance(known, State) else known.state
        subject = state.meant(given)
        exchange.check_access(Action.READ, subject_resource(subject or None))
        if submitted is not None:
            check_references(exchange, subject, submitted)
        return look(known)

    return look_if_allowed


def check_references(exchange: Exchange, subject: str, submitted: Submitted) -> None:
    """Raise `NotPermitted` unless who asks may read all that a schema refers to."""
    for each in submitted.references:
        referred = resolved_in(each.subject, context_of(subject))
        exchange.check_access(Action.READ, subject_resource(referred or None))


def readable_of(exchange: Exchange, uses: Iterable[Version]) -> Sequence[Version]:
    """Return the versions whose subjects who asks may read, in order.

    Raises `NotPermitted` if there is none. That names no subject: ids can be guessed.
    """
    found = [version for version in uses if may_read(exchange, version.subject)]
    access = exchange.context.access
    if not found and exchange.admission is not None and access is not None:
        access.refuse(exchange, Action.READ, subject_resource(None))
    return sorted(found, key=lambda version: (version.subject, version.number))
