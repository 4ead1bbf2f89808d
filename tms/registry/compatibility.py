"""Whether a schema fits earlier versions, by the compatibility level. Pure."""

from collections.abc import Sequence

from tms.registry.contracts import broken_reservations, property_of
from tms.registry.questions.questions import Compared, Comparison, Incompatibility, NoSchema, Parsed
from tms.registry.sources import source_of
from tms.registry.state.knowledge import Knowledge
from tms.registry.state.refusal import INCOMPATIBLE, RegistryError
from tms.registry.state.registry_state import State, Version
from tms.registry.state.schema import Schema
from tms.registry.state.settings import LEVEL_DEFAULT, Config, Level

_OTHER = "The {reader} schema does not take all that the {writer} schema does, at path {path}"
_DIFFERENT_KIND = "Incompatible because of different schema type"
_EXPLAINED = {
    "NAME_MISMATCH": "The name of the schema at path {path} differs in the {reader} schema",
    "FIXED_SIZE_MISMATCH": "The size of the fixed type at path {path} differs in the {reader} "
    "schema",
    "MISSING_ENUM_SYMBOLS": "The {reader} schema is missing enum symbols of the {writer} schema at "
    "path {path}",
    "READER_FIELD_MISSING_DEFAULT_VALUE": "The field {what} at path {path} in the {reader} schema "
    "has no default value and is missing in the {writer} schema",
    "TYPE_MISMATCH": "The type at path {path} in the {reader} schema cannot read that of the "
    "{writer} schema",
    "MISSING_UNION_BRANCH": "The {reader} schema is missing a type of the union of the {writer} "
    "schema at path {path}",
}


def misfits(
    knowledge: Knowledge, schema: Schema, versions: Sequence[Version], config: Config
) -> list[str]:
    """Return why a schema does not fit versions by settings, for people; empty if it does.

    It names the first version that the schema does not fit. Raises `Unanswered`.
    """
    level = config.compatibility or LEVEL_DEFAULT
    checked = [] if level is Level.NONE else versions
    alike = [version for version in checked if version.schema.kind == schema.kind]
    comparisons = {
        id(version): _comparisons(knowledge, schema, version, level) for version in alike
    }
    answers = knowledge.findings.answers_to(
        [pair for pairs in comparisons.values() for pair in pairs], Compared
    )
    shown = f"{{validateFields: '{str(bool(config.validate_fields)).lower()}', "
    shown += f"compatibility: '{level}'}}"
    for version in checked:
        if version.schema.kind != schema.kind:
            messages = [_DIFFERENT_KIND]
        else:
            messages = [
                message
                for comparison in comparisons[id(version)]
                for message in _messages(answers[comparison], schema, comparison)
            ]
        if messages:
            return [
                *dict.fromkeys(messages),
                f"{{oldSchemaVersion: {version.number}}}",
                f"{{oldSchema: '{version.schema.text}'}}",
                shown,
            ]
    broken = _broken_reservations(knowledge, schema, versions) if config.validate_fields else []
    return [*broken, shown] if broken else []


def _broken_reservations(
    knowledge: Knowledge, schema: Schema, versions: Sequence[Version]
) -> list[str]:
    parsed = knowledge.findings.answer_to(source_of(knowledge, schema), Parsed)
    if isinstance(parsed, NoSchema):
        return [parsed.reason]
    return broken_reservations(schema, parsed, versions[0].schema if versions else None)


def _comparisons(
    knowledge: Knowledge, schema: Schema, version: Version, level: Level
) -> list[Comparison]:
    if schema.has_text_of(version.schema):
        return []
    new = source_of(knowledge, schema)
    old = source_of(knowledge, version.schema)
    comparisons = []
    if level.new_reads_old:
        comparisons.append(Comparison(new, old))
    if level.old_reads_new:
        comparisons.append(Comparison(old, new))
    return comparisons


def _messages(answer: Compared | NoSchema, schema: Schema, comparison: Comparison) -> list[str]:
    if isinstance(answer, NoSchema):
        return [f"The schemas could not be compared: {answer.reason}"]
    is_new = comparison.reader.text == schema.text
    reader, writer = ("new", "old") if is_new else ("old", "new")
    return [
        _message(incompatibility, reader, writer) for incompatibility in answer.incompatibilities
    ]


def _message(reason: Incompatibility, reader: str, writer: str) -> str:
    """Return why a reader cannot read a writer's data, in Confluent's form."""
    text = _EXPLAINED.get(reason.kind, _OTHER).format(
        reader=reader, writer=writer, path=reason.path, what=reason.message
    )
    return f"{{errorType:'{reason.kind}', description:'{text}', additionalInfo:'{reason.message}'}}"


def to_fit(state: State, subject: str, schema: Schema) -> list[Version]:
    """Return the versions that a new one of a subject must fit, the latest first.

    With a compatibility group, only versions of the same group.
    """
    config, versions = state.config(subject), state.versions(subject)[::-1]
    group = config.compatibility_group
    if group:
        property_name = property_of(schema, group)
        versions = [
            version for version in versions if property_of(version.schema, group) == property_name
        ]
    is_transitive = (config.compatibility or LEVEL_DEFAULT).is_transitive
    return versions if is_transitive else versions[:1]


def check_fits(knowledge: Knowledge, subject: str, schema: Schema) -> None:
    """Raise `RegistryError` (409) if a schema does not fit. Raises `Unanswered`, too."""
    versions = to_fit(knowledge.state, subject, schema)
    messages = misfits(knowledge, schema, versions, knowledge.state.config(subject))
    if messages:
        raise RegistryError(INCOMPATIBLE, subject=subject, details=", ".join(messages))
