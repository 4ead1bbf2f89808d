"""The resource of each operation of the registry, for access control.

1. An operation on a subject is done to it under the one name that stands for it (`qualified`).
   Reading versions follows aliases. The alias may change in the meantime, so access is checked
   again at the lookup (`readable`).
2. An operation without a subject in its path acts on all subjects, and needs a rule for `*`.
3. All other reads ask the caller's `SchemaReader` (`tms.registry.state.readers`).
4. A schema in a request may only refer to schemas that the caller may read, with all their
   references.
5. A caller that may write but not read gets only numbers, and no word of a schema.
6. If a write destroys a version, the caller must be allowed to delete it.
7. A text is found by its written out references only if the caller may read these.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Never, TypeVar

from api.http.door.guarded import DecidedBy
from api.http.exchange import Exchange
from api.http.operation import Operation
from tms.core.services.schemas import SubmittedSchema
from tms.registry.log.service import Registry
from tms.registry.state.decision import Decided
from tms.registry.state.knowledge import Knowledge
from tms.registry.state.readers import EVERYTHING, SchemaReader
from tms.registry.state.records import SCHEMA, Purged, SchemaWritten
from tms.registry.state.refusal import INCOMPATIBLE, INVALID_SCHEMA, RegistryError
from tms.registry.state.registry_state import State
from tms.registry.state.subjects import check_context, qualified, resolved_in
from tms.security.resources import Action, Resource, subject_resource

A = TypeVar("A")
S = TypeVar("S", State, Knowledge)
_OF_ITS_NAME = frozenset(("subject_config", "subject_mode"))
"""Operations on the settings of a name, not of its alias."""
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
    """Return the operations, each with the resource that it acts on."""
    return tuple(
        replace(operation, decided_by=DecidedBy.ANSWER)
        if operation.name in _BY_ANSWER
        else replace(operation, resource=partial(_resource, registry, operation))
        for operation in operations
    )


def in_context(names: Mapping[str, str], name: str) -> str:
    """Return a subject or a part of one, in the context that a path names.

    Below `/contexts/{context}` a name without a context belongs to that one. Raises `RegistryError`
    (42208) if the context's name is not valid.
    """
    context = names.get("context")
    return name if context is None else resolved_in(name, check_context(context))


def _resource(registry: Registry, operation: Operation, names: Mapping[str, str]) -> Resource:
    """Return the resource of an operation. Raises `RegistryError` (42208)."""
    name = in_context(names, names.get("subject", ""))
    has_alias = operation.action is Action.READ and operation.name not in _OF_ITS_NAME
    subject = registry.state.resolved(name) if has_alias else qualified(name)
    return subject_resource(subject or None)


def reader_of(exchange: Exchange) -> SchemaReader:
    """Return the reader for the caller."""
    if exchange.admission is None or exchange.context.access is None:
        return EVERYTHING
    return SchemaReader(partial(_may_read, exchange), partial(_refuse, exchange))


def _may_read(exchange: Exchange, subject: str) -> bool:
    return exchange.may(Action.READ, subject_resource(subject or None))


def _refuse(exchange: Exchange, subject: str | None) -> Never:
    access = exchange.context.access
    assert access is not None, "without access control nothing is refused"
    access.refuse(exchange, Action.READ, subject_resource(subject or None))


def readable(
    exchange: Exchange,
    name: str,
    look: Callable[[S], A],
    submitted: SubmittedSchema | None = None,
    *,
    is_whole: bool = False,
) -> Callable[[S], A]:
    """Return a `look` that raises `NotPermitted` unless the caller may read what it looks up.

    `name` is the requested subject, `submitted` a schema that is sent with it. With `is_whole`, the
    caller must also be allowed to read all references of the subject's versions.
    """
    if exchange.admission is None:
        return look

    def look_if_allowed(seen_state: S) -> A:
        state = seen_state if isinstance(seen_state, State) else seen_state.state
        subject = state.resolved(name)
        exchange.check_access(Action.READ, subject_resource(subject or None))
        reader = reader_of(exchange)
        if submitted is not None:
            reader.check_references(state, submitted.references)
        for version in state.versions(subject) if is_whole else ():
            reader.check_whole(state, version)
        return look(
            seen_state if isinstance(seen_state, State) else replace(seen_state, reader=reader)
        )

    return look_if_allowed


def writable(
    exchange: Exchange,
    name: str,
    command: Callable[[Knowledge], Decided[A]],
    submitted: SubmittedSchema | None = None,
    telling: Collection[int] = (INCOMPATIBLE,),
) -> Callable[[Knowledge], Decided[A]]:
    """Return a `command` that destroys no version that the caller may not delete.

    Refusals with the codes `telling` say nothing about versions of the subject `name` if the caller
    may not read them. If the caller may not read the references of `submitted`, it raises
    `NotPermitted`.
    """
    if exchange.admission is None:
        return command

    def decide(knowledge: Knowledge) -> Decided[A]:
        reader = reader_of(exchange)
        if submitted is not None:
            reader.check_references(knowledge.state, submitted.references)
        try:
            decided = command(replace(knowledge, reader=reader))
        except RegistryError as error:
            versions = knowledge.state.versions(qualified(name))
            if error.code not in telling or reader.reads_whole(knowledge.state, versions):
                raise
            raise _without_words(error, name) from None
        for subject in _destroyed(knowledge.state, decided):
            exchange.check_access(Action.DELETE, subject_resource(subject))
        return decided

    return decide


def _without_words(error: RegistryError, subject: str) -> RegistryError:
    """Return a refusal that says nothing about the existing versions."""
    hidden = "you may not read all the schemas that it is compared with"
    if error.code == INCOMPATIBLE:
        return RegistryError(INCOMPATIBLE, subject=subject, details=hidden)
    return RegistryError(INVALID_SCHEMA, reason=f"Invalid schema, details: {hidden}")


def _destroyed(state: State, decided: Decided[A]) -> list[str]:
    """Return the subjects from which a decision deletes versions without writing them again."""
    written = {
        (record.subject, record.id)
        for record in decided.records
        if isinstance(record, SchemaWritten)
    }
    gone = []
    for record in decided.records:
        if isinstance(record, Purged) and record.key.keytype == SCHEMA:
            subject = record.key.subject or ""
            version = state.version(subject, record.key.version or 0)
            if version is not None and (subject, version.id) not in written:
                gone.append(subject)
    return list(dict.fromkeys(gone))
