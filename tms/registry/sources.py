"""From a submitted text to the schema that is kept: references found, text checked. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from tms.core.credentials import shortened
from tms.core.schemas import AVRO, JSON, PROTOBUF
from tms.registry.contracts import NOTHING, Contract
from tms.registry.knowledge import Knowledge
from tms.registry.questions import InForm, NoSchema, Source, TextInForm
from tms.registry.refusal import INVALID_SCHEMA, TOO_LARGE, RegistryError
from tms.registry.schema import Reference, Schema
from tms.registry.state import State, Version
from tms.registry.subjects import context_of, resolved_in

KINDS = frozenset((AVRO, JSON, PROTOBUF))
LATEST = -1
_ORDERED, _NORMALIZED = "resolved_ordered", "resolved_normalized"
"""Forms in which a schema with references and one without are compared."""
_CHARS_SHOWN = 1_000


@dataclass(frozen=True, slots=True)
class Submitted:
    """A schema as it is sent."""

    text: str
    kind: str = AVRO
    references: tuple[Reference, ...] = ()
    """Their subjects are qualified (`references_in`)."""
    told: Contract = NOTHING
    """The metadata and rules of the request."""


def schema_of(
    known: Knowledge,
    submitted: Submitted,
    subject: str,
    contract: Contract = NOTHING,
    *,
    normalize: bool = False,
) -> Schema:
    """Return the schema of a submitted text, as it would be kept under a subject.

    `contract` goes with it. Raises `RegistryError` (42201, 42209), `Unanswered`.
    """
    state, limits = known.state, known.limits
    if submitted.kind not in KINDS:
        raise RegistryError(INVALID_SCHEMA, reason=f"Invalid schema type {submitted.kind}")
    if not submitted.text:
        raise RegistryError(INVALID_SCHEMA, reason="Empty schema")
    size = len(submitted.text.encode(errors="replace"))
    if size > limits.schema_bytes_max:
        reason = f"The schema has {size} bytes, and may have {limits.schema_bytes_max}"
        raise RegistryError(TOO_LARGE, reason=reason)
    references = found_references(state, submitted.references)
    normalize = _normalizes(state, subject, normalize=normalize)
    if normalize:
        references = tuple(sorted(set(references), key=_in_order))
    kept = Schema(submitted.kind, submitted.text, references, *contract)
    if not normalize and kept.identity in state.space(context_of(subject)).ids:
        return kept
    texts = texts_of(known, references)
    answer = known.findings.parsed(Source(submitted.kind, submitted.text, texts))
    if isinstance(answer, NoSchema):
        raise RegistryError(INVALID_SCHEMA, reason=_told(submitted, answer))
    return replace(kept, text=answer.normalized if normalize else answer.text)


def _normalizes(state: State, subject: str, *, normalize: bool) -> bool:
    return normalize or bool(state.config(subject).normalize)


def _told(submitted: Submitted, invalid: NoSchema) -> str:
    shown = shortened(submitted.text, _CHARS_SHOWN)
    named = ", ".join(f"{each.name}={each.subject}/{each.version}" for each in submitted.references)
    return (
        f"Invalid schema {shown} with refs [{named}] of type {submitted.kind}, "
        f"details: {shortened(invalid.reason, _CHARS_SHOWN)}"
    )


def references_in(references: Iterable[Reference], subject: str) -> tuple[Reference, ...]:
    """Return references as a schema of a subject means them: in its context, in full."""
    context = context_of(subject)
    return tuple(
        Reference(name, resolved_in(given, context), number) for name, given, number in references
    )


def found_references(state: State, references: tuple[Reference, ...]) -> tuple[Reference, ...]:
    """Return references with the versions that they mean now. Raises `RegistryError` (42201)."""
    found = []
    for name, given, number in references:
        version = _live(state, given, number)
        if version is None:
            reason = f"Invalid reference {name!r}: no version {number} of subject {given!r}"
            raise RegistryError(INVALID_SCHEMA, reason=reason)
        found.append(Reference(name, version.subject, version.number))
    return tuple(found)


def _in_order(reference: Reference) -> tuple[str, int, str]:
    return reference.subject, reference.version, reference.name


def _live(state: State, subject: str, number: int) -> Version | None:
    if number == LATEST:
        return state.latest(subject)
    version = state.version(subject, number)
    return version if version is not None and not version.is_deleted else None


def texts_of(known: Knowledge, references: tuple[Reference, ...]) -> tuple[tuple[str, str], ...]:
    """Return the names and texts that references lead to, each behind those that it needs.

    A name means what it was given for first. Raises `RegistryError` (42201) if they lead too far.
    """
    texts: dict[str, str] = {}
    _Walk(known, texts, set()).collect(references, 1)
    return tuple(texts.items())


@dataclass(frozen=True, slots=True)
class _Walk:
    """A walk along references."""

    known: Knowledge
    texts: dict[str, str]
    """The texts of the references that were found, by name."""
    met: set[tuple[str, int]]

    def collect(self, references: tuple[Reference, ...], depth: int) -> None:
        """Add the texts that references lead to. Raises `RegistryError` (42201)."""
        limits = self.known.limits
        if references and depth > limits.references_depth_max:
            reason = f"References lead further than {limits.references_depth_max} steps"
            raise RegistryError(INVALID_SCHEMA, reason=reason)
        for name, subject, number in references:
            version = self.known.state.version(subject, number)
            if name in self.texts or (subject, number) in self.met or version is None:
                continue
            self.met.add((subject, number))
            self.collect(version.schema.references, depth + 1)
            self.texts.setdefault(name, version.schema.text)
            if len(self.texts) > limits.references_max:
                reason = f"References lead to more than {limits.references_max} schemas"
                raise RegistryError(INVALID_SCHEMA, reason=reason)


def source_of(known: Knowledge, schema: Schema) -> Source:
    """Return a schema as it is asked about. Raises `RegistryError` (42201)."""
    return Source(schema.kind, schema.text, texts_of(known, schema.references))


def versions_of_text(
    known: Knowledge,
    schema: Schema,
    versions: Sequence[Version],
    is_meant: Callable[[Version], bool],
    *,
    normalize: bool = False,
) -> list[Version]:
    """Return those of a subject's versions that have a schema's text and references, latest first.

    Only versions that are meant count. If there are none, those that have the text if their
    references are written out in it, as Java's generated classes send it; but only if who asks may
    read these. Raises `Unanswered`.
    """
    latest_first = versions[::-1]
    same = [each for each in latest_first if each.schema.has_text_of(schema) and is_meant(each)]
    if same or schema.kind != AVRO or schema.references:
        return same
    others = [
        (each, source)
        for each in latest_first
        if each.schema.references and is_meant(each) and (source := _source(known, each))
    ]
    if not others:
        return []
    state = known.state
    form = _NORMALIZED if _normalizes(state, versions[0].subject, normalize=normalize) else _ORDERED
    questions = [InForm(source, form) for _, source in others]
    asked = InForm(Source(AVRO, schema.text), form)
    found = known.findings.all_of([asked, *questions])
    return [
        version
        for (version, _), question in zip(others, questions, strict=True)
        if isinstance(found[asked], TextInForm) and found[question] == found[asked]
    ]


def _source(known: Knowledge, version: Version) -> Source | None:
    """Return a version as it is asked about.

    None if it is not Avro's, or if its references may not be read or lead too far.
    """
    schema = version.schema
    if schema.kind != AVRO:
        return None
    if known.reader.refused_in(known.state, schema.references) is not None:
        return None
    try:
        return source_of(known, schema)
    except RegistryError:
        return None
