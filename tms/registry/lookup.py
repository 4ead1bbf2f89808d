"""Lookups in the state, which they do not change. Pure; lists are in order."""

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping

from tms.core.services.schemas import SubmittedSchema
from tms.core.values.schema_types import type_of
from tms.registry.compatibility import misfits, to_fit
from tms.registry.contracts import (
    NOTHING,
    Contract,
    contract_of,
    kept,
    merged,
    named_number,
    property_of,
    unnumbered,
)
from tms.registry.deletion import LATEST, parse_version
from tms.registry.questions.questions import InForm, Tags, TagsFound, TextInForm, WhichTags
from tms.registry.sources import schema_of, source_of, versions_of_text
from tms.registry.state.knowledge import Knowledge
from tms.registry.state.refusal import (
    SCHEMA_NOT_FOUND,
    SUBJECT_NOT_FOUND,
    VERSION_NOT_FOUND,
    RegistryError,
)
from tms.registry.state.registry_state import State, Version
from tms.registry.state.schema import Schema
from tms.registry.state.subjects import ALL_CONTEXTS, context_of, parse_subject, qualified

ALL_TAGS = "*"
"""Stands for all tags in a request for tags."""


def subjects(
    state: State, prefix: str, *, deleted: bool = False, deleted_only: bool = False
) -> list[str]:
    """Return the subjects that begin with a prefix and have versions to show."""
    return [
        subject
        for subject in _with_prefix(state.subjects, prefix)
        if deleted_only == (state.latest(subject) is None) or (deleted and not deleted_only)
    ]


def _with_prefix(names: Iterable[str], prefix: str) -> Iterator[str]:
    """Yield names of one context, or of all, with a prefix; in byte order."""
    if prefix.startswith(ALL_CONTEXTS):
        context_prefix = prefix.removeprefix(ALL_CONTEXTS)
        yield from sorted(
            name for name in names if parse_subject(name).name.startswith(context_prefix)
        )
        return
    start, context = qualified(prefix), context_of(prefix)
    yield from sorted(
        name for name in names if name.startswith(start) and context_of(name) == context
    )


def schemas(
    state: State, prefix: str, *, deleted: bool, latest_only: bool, rule_type: str = ""
) -> list[Version]:
    """Return the versions of subjects with a prefix, by subject and number.

    With `rule_type`, only those with a rule of that type.
    """
    selected = []
    for subject in _with_prefix(state.subjects, prefix):
        versions = state.versions(subject, deleted=deleted)
        selected += versions[-1:] if latest_only else versions
    return [each for each in selected if not rule_type or _has_rule(each.schema, rule_type)]


def aliases(state: State) -> dict[str, list[str]]:
    """Return by subject the names of its aliases, in order."""
    by_subject: dict[str, list[str]] = {}
    for name, written in sorted(state.configs.items()):
        if written.value.alias:
            by_subject.setdefault(state.resolved(name), []).append(name)
    return by_subject


def _has_rule(schema: Schema, rule_type: str) -> bool:
    rules = () if schema.rule_set is None else schema.rule_set.all_rules()
    return any(rule.type == rule_type for rule in rules)


def versions(
    state: State, name: str, *, deleted: bool = False, deleted_only: bool = False
) -> list[int]:
    """Return the numbers of a subject's versions. Raises `RegistryError` (40401)."""
    all_versions = state.versions(state.resolved(name), deleted=True)
    if deleted_only:
        numbers = [version.number for version in all_versions if version.is_deleted]
    else:
        numbers = [version.number for version in all_versions if deleted or not version.is_deleted]
    if not numbers:
        raise RegistryError(SUBJECT_NOT_FOUND, subject=name)
    return numbers


def version(state: State, name: str, token: str, *, deleted: bool = False) -> Version:
    """Return a version of a subject. Raises `RegistryError` (40401, 40402, 42202)."""
    number = parse_version(token)
    subject = state.resolved(name)
    shown = state.versions(subject, deleted=deleted)
    if not shown:
        raise RegistryError(SUBJECT_NOT_FOUND, subject=name)
    matching = state.latest(subject) if number == LATEST else state.version(subject, number)
    if matching is None or (matching.is_deleted and not deleted):
        raise RegistryError(VERSION_NOT_FOUND, version=number)
    return matching


def referrers(state: State, name: str, token: str, *, deleted: bool = False) -> list[Version]:
    """Return the versions that refer to a version. Raises `RegistryError`."""
    return state.referrers(version(state, name, token, deleted=True), deleted=deleted)


def version_of_id(state: State, schema_id: int, hint: str = "") -> Version:
    """Return a version with an id: one of the hinted subject, or else the first.

    The hint also determines the context. Raises `RegistryError` (40403).
    """
    uses = state.space(context_of(hint)).uses.get(schema_id)
    if not uses:
        raise RegistryError(SCHEMA_NOT_FOUND, which=f" {schema_id}")
    subject = state.resolved(hint)
    for candidates in uses.values():
        if candidates.subject == subject:
            return candidates
    live = (each for each in uses.values() if not each.is_deleted)
    return next(live, next(iter(uses.values())))


def uses_of_id(
    state: State, schema_id: int, hint: str = "", *, deleted: bool = False
) -> list[Version]:
    """Return the versions with an id, by subject and number. Raises `RegistryError`."""
    version_of_id(state, schema_id, hint)
    subject = state.resolved(hint)
    is_of_subject = bool(parse_subject(subject).name)
    uses = state.space(context_of(hint)).uses[schema_id].values()
    matching = [
        each
        for each in uses
        if (deleted or not each.is_deleted) and (not is_of_subject or each.subject == subject)
    ]
    return sorted(matching, key=lambda each: (each.subject, each.number))


def all_uses_of_id(state: State, schema_id: int, hint: str = "") -> Iterable[Version]:
    """Return all versions with an id, soft-deleted ones included."""
    return state.space(context_of(hint)).uses.get(schema_id, {}).values()


def max_id(state: State, hint: str = "") -> int:
    """Return the greatest id assigned in a context; 0 if there is none."""
    return state.space(context_of(hint)).next_id - 1


def ids_of_guid(state: State, guid: str) -> list[tuple[str, int]]:
    """Return the contexts and ids of a guid. Raises `RegistryError` (40403)."""
    try:
        ids = state.ids_of_guid(uuid.UUID(guid).bytes)
    except ValueError:
        ids = []
    if not ids:
        raise RegistryError(SCHEMA_NOT_FOUND, which=f" {guid}")
    return ids


def version_of_guid(state: State, guid: str) -> Version:
    """Return a version with a guid. Raises `RegistryError` (40403)."""
    context, schema_id = ids_of_guid(state, guid)[0]
    return next(iter(state.space(context).uses[schema_id].values()))


def all_uses_of_guid(state: State, guid: str) -> list[Version]:
    """Return all versions with a guid, in all contexts. Raises `RegistryError` (40403)."""
    return [
        version
        for context, schema_id in ids_of_guid(state, guid)
        for version in state.space(context).uses[schema_id].values()
    ]


def same(
    knowledge: Knowledge,
    name: str,
    submitted: SubmittedSchema,
    *,
    deleted: bool = False,
) -> Version:
    """Return the version of a subject that has a schema.

    Metadata and rules count if the request has them; otherwise a version without any is preferred.
    Among several, it is the one that the metadata names, or the latest. Raises `RegistryError`
    (40401, 40403, 42201, 42210), `Unanswered`.
    """
    state, subject = knowledge.state, knowledge.state.resolved(name)
    said = contract_of(submitted)
    contract = kept(said)
    shown = state.versions(subject, deleted=deleted)
    if not shown:
        raise RegistryError(SUBJECT_NOT_FOUND, subject=name)
    schema = schema_of(knowledge, submitted, subject)
    meant = [unnumbered(contract), unnumbered(merged(contract, state.config(subject), None))]

    def is_meant(version: Version) -> bool:
        return _is_meant(said, meant, version.schema)

    same = versions_of_text(knowledge, schema, shown, is_meant, submitted)
    if not same:
        raise RegistryError(SCHEMA_NOT_FOUND, which="")
    number = named_number(contract)
    for each in same:
        if each.number == number or (contract == NOTHING and contract_of(each.schema) == NOTHING):
            return each
    return same[0]


def _is_meant(contract: Contract, accepted: Iterable[Contract], schema: Schema) -> bool:
    """Whether a schema has the request's metadata and rules, if it gives any."""
    metadata, rules = unnumbered(contract_of(schema))
    return any(
        (contract.metadata is None or each.metadata == metadata)
        and (contract.rule_set is None or each.rule_set == rules)
        for each in accepted
    )


def with_properties(state: State, subject_name: str, required: Mapping[str, str]) -> Version:
    """Return a subject's latest version whose metadata has all properties of `required`.

    Raises `RegistryError` (40401, 40403).
    """
    subject = state.resolved(subject_name)
    versions = state.versions(subject)
    if not versions:
        raise RegistryError(SUBJECT_NOT_FOUND, subject=subject_name)
    for matching in reversed(versions):
        if all(property_of(matching.schema, name) == value for name, value in required.items()):
            return matching
    raise RegistryError(SCHEMA_NOT_FOUND, which="")


def text_in(knowledge: Knowledge, schema: Schema, form: str) -> str:
    """Return the text of a schema in a form; as stored if its type lacks that form.

    Raises `Unanswered`, `RegistryError` (42201).
    """
    if form not in type_of(schema.kind).forms:
        return schema.text
    return knowledge.answer_to(InForm(source_of(knowledge, schema), form), TextInForm).text


def tags_in(
    knowledge: Knowledge, schema: Schema, requested: Collection[str] = frozenset((ALL_TAGS,))
) -> Tags:
    """Return the entities of a schema with any of some tags, each with all of its tags.

    Raises `Unanswered`, `RegistryError`.
    """
    tags = knowledge.answer_to(WhichTags(source_of(knowledge, schema)), TagsFound).tags
    if ALL_TAGS in requested:
        return tags
    return tuple(each for each in tags if any(tag in requested for tag in each[1]))


def why_unfit(
    knowledge: Knowledge,
    name: str,
    token: str | None,
    submitted: SubmittedSchema,
) -> list[str]:
    """Return why a schema does not fit a version, or those that the level requires; [] if it does.

    Raises `RegistryError` (40402, 42201, 42202, 42210), `Unanswered`.
    """
    state, subject = knowledge.state, knowledge.state.resolved(name)
    number = None if token is None else parse_version(token)
    before = None if number is None else state.version(subject, number)
    if number not in (None, LATEST) and (before is None or before.is_deleted):
        raise RegistryError(VERSION_NOT_FOUND, version=number)
    contract = merged(contract_of(submitted), state.config(subject), state.latest(subject))
    schema = schema_of(knowledge, submitted, subject, contract, is_new=True)
    earlier = to_fit(state, subject, schema) if before is None else [before]
    checked = earlier[:1] if number == LATEST else earlier
    return misfits(knowledge, schema, checked, state.config(subject))
