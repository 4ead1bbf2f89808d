"""Turns a submitted text into the stored schema: resolves references, checks the text. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tms.core.services.schemas import SchemaReference, SubmittedSchema
from tms.core.text.credentials import shortened
from tms.core.values.schema_types import SCHEMA_TYPES, type_of
from tms.registry.contracts import NOTHING, Contract, contract_in_order
from tms.registry.questions.questions import InForm, NoSchema, Parsed, Source, TextInForm
from tms.registry.state.knowledge import Knowledge
from tms.registry.state.refusal import INVALID_SCHEMA, TOO_LARGE, RegistryError
from tms.registry.state.registry_state import State, Version
from tms.registry.state.schema import Schema
from tms.registry.state.subjects import context_of, resolved_in

LATEST = -1
_ORDERED, _NORMALIZED = "resolved_ordered", "resolved_normalized"
"""Forms that compare schemas with and without references."""
_CHARS_SHOWN = 1_000


def schema_of(
    knowledge: Knowledge,
    submitted: SubmittedSchema,
    subject: str,
    contract: Contract = NOTHING,
    *,
    is_new: bool = False,
) -> Schema:
    """Return the stored schema of a submitted text under a subject.

    The schema gets `contract`. A new and normalized schema must meet its type's conditions for
    that. Raises `RegistryError` (42201, 42209), `Unanswered`.
    """
    state, limits = knowledge.state, knowledge.limits
    if submitted.kind not in SCHEMA_TYPES:
        raise RegistryError(INVALID_SCHEMA, reason=f"Invalid schema type {submitted.kind}")
    if not submitted.text:
        raise RegistryError(INVALID_SCHEMA, reason="Empty schema")
    size = len(submitted.text.encode(errors="replace"))
    if size > limits.schema_bytes_max:
        reason = f"The schema has {size} bytes, and may have {limits.schema_bytes_max}"
        raise RegistryError(TOO_LARGE, reason=reason)
    references = resolved_references(state, submitted.references)
    normalize = _normalizes(state, subject, submitted)
    if normalize:
        references = tuple(sorted(set(references), key=_in_order))
    kept = Schema(submitted.kind, submitted.text, references, *contract)
    if not normalize and kept.identity in state.space(context_of(subject)).ids:
        return kept
    texts = texts_of(knowledge, references)
    answer = knowledge.findings.answer_to(Source(submitted.kind, submitted.text, texts), Parsed)
    if isinstance(answer, NoSchema):
        raise RegistryError(INVALID_SCHEMA, reason=_refusal_text(submitted, answer.reason))
    if is_new and normalize and answer.problem_if_normalized:
        reason = _refusal_text(submitted, answer.problem_if_normalized)
        raise RegistryError(INVALID_SCHEMA, reason=reason)
    return replace(kept, text=answer.normalized if normalize else answer.text)


def _normalizes(state: State, subject: str, submitted: SubmittedSchema) -> bool:
    return submitted.normalize or bool(state.config(subject).normalize)


def _refusal_text(submitted: SubmittedSchema, reason: str) -> str:
    shown = shortened(submitted.text, _CHARS_SHOWN)
    named = ", ".join(
        f"{reference.name}={reference.subject}/{reference.version}"
        for reference in submitted.references
    )
    return (
        f"Invalid schema {shown} with refs [{named}] of type {submitted.kind}, "
        f"details: {shortened(reason, _CHARS_SHOWN)}"
    )


def submitted_in(subject: str, submitted: SubmittedSchema) -> SubmittedSchema:
    """Return a schema with references resolved in a subject's context, in order."""
    context = context_of(subject)
    references = tuple(
        replace(reference, subject=resolved_in(reference.subject, context))
        for reference in submitted.references
    )
    metadata, rules = contract_in_order(submitted.metadata, submitted.rule_set)
    return replace(submitted, references=references, metadata=metadata, rule_set=rules)


def resolved_references(
    state: State, references: tuple[SchemaReference, ...]
) -> tuple[SchemaReference, ...]:
    """Return references with their present versions. Raises `RegistryError` (42201)."""
    resolved = []
    for reference in references:
        version = _live(state, reference.subject, reference.version)
        if version is None:
            reason = f"no version {reference.version} of subject {reference.subject!r}"
            reason = f"Invalid reference {reference.name!r}: {reason}"
            raise RegistryError(INVALID_SCHEMA, reason=reason)
        resolved.append(SchemaReference(reference.name, version.subject, version.number))
    return tuple(resolved)


def _in_order(reference: SchemaReference) -> tuple[str, int, str]:
    return reference.subject, reference.version, reference.name


def _live(state: State, subject: str, number: int) -> Version | None:
    if number == LATEST:
        return state.latest(subject)
    version = state.version(subject, number)
    return version if version is not None and not version.is_deleted else None


def texts_of(
    knowledge: Knowledge, references: tuple[SchemaReference, ...]
) -> tuple[tuple[str, str], ...]:
    """Return the names and texts that references lead to, each after those it needs.

    The first meaning of a name counts. Raises `RegistryError` (42201) if the chain is too long.
    """
    texts: dict[str, str] = {}
    _Walk(knowledge, texts, set()).collect(references, 1)
    return tuple(texts.items())


@dataclass(frozen=True, slots=True)
class _Walk:
    """A walk along references."""

    knowledge: Knowledge
    texts: dict[str, str]
    """The texts of resolved references, by name."""
    met: set[tuple[str, int]]

    def collect(self, references: tuple[SchemaReference, ...], depth: int) -> None:
        """Collect the texts that references lead to. Raises `RegistryError` (42201)."""
        limits = self.knowledge.limits
        if references and depth > limits.references_depth_max:
            reason = f"References are nested more than {limits.references_depth_max} levels deep"
            raise RegistryError(INVALID_SCHEMA, reason=reason)
        for reference in references:
            name, met = reference.name, (reference.subject, reference.version)
            version = self.knowledge.state.version(*met)
            if name in self.texts or met in self.met or version is None:
                continue
            self.met.add(met)
            self.collect(version.schema.references, depth + 1)
            self.texts.setdefault(name, version.schema.text)
            if len(self.texts) > limits.references_max:
                reason = f"References lead to more than {limits.references_max} schemas"
                raise RegistryError(INVALID_SCHEMA, reason=reason)


def source_of(knowledge: Knowledge, schema: Schema) -> Source:
    """Return a schema as a question's source. Raises `RegistryError` (42201)."""
    return Source(schema.kind, schema.text, texts_of(knowledge, schema.references))


def versions_of_text(
    knowledge: Knowledge,
    schema: Schema,
    versions: Sequence[Version],
    is_meant: Callable[[Version], bool],
    submitted: SubmittedSchema,
) -> list[Version]:
    """Return a subject's versions with a schema's text and references, latest first.

    Only versions that `is_meant` accepts count. If there are none, those count whose text with
    written-out references is the same, as Java's generated classes send it, if the caller may read
    the references. Raises `Unanswered`.
    """
    latest_first = versions[::-1]
    same = [each for each in latest_first if each.schema.has_text_of(schema) and is_meant(each)]
    if same or schema.references or not type_of(schema.kind).is_form_whole:
        return same
    others = [
        (each, source)
        for each in latest_first
        if each.schema.kind == schema.kind
        and each.schema.references
        and is_meant(each)
        and (source := _source(knowledge, each))
    ]
    if not others:
        return []
    state = knowledge.state
    form = _NORMALIZED if _normalizes(state, versions[0].subject, submitted) else _ORDERED
    questions = [InForm(source, form) for _, source in others]
    text_question = InForm(Source(schema.kind, schema.text), form)
    answers = knowledge.findings.answers_to([text_question, *questions], TextInForm)
    return [
        version
        for (version, _), question in zip(others, questions, strict=True)
        if isinstance(answers[text_question], TextInForm)
        and answers[question] == answers[text_question]
    ]


def _source(knowledge: Knowledge, version: Version) -> Source | None:
    """Return a version as a question's source; None if its references may not be read."""
    schema = version.schema
    if knowledge.reader.refused_in(knowledge.state, schema.references) is not None:
        return None
    try:
        return source_of(knowledge, schema)
    except RegistryError:
        return None
