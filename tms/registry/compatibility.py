"""Whether a schema fits earlier versions, by the level that is set. Pure."""

from collections.abc import Sequence

from tms.registry.knowledge import Knowledge
from tms.registry.questions import Compared, Comparison, NoSchema
from tms.registry.refusal import INCOMPATIBLE, RegistryError
from tms.registry.schema import Schema
from tms.registry.settings import Level
from tms.registry.sources import source_of
from tms.registry.state import State, Version

_DIFFERENT_KIND = "Incompatible because of different schema type"


def misfits(
    known: Knowledge, schema: Schema, versions: Sequence[Version], level: Level
) -> list[str]:
    """Return why a schema does not fit versions, for people; nothing if it does.

    The first version that it does not fit is told of. Raises `Unanswered`.
    """
    if level is Level.NONE:
        return []
    alike = [version for version in versions if version.schema.kind == schema.kind]
    asked = {id(version): _comparisons(known, schema, version, level) for version in alike}
    found = known.findings.compared([each for pairs in asked.values() for each in pairs])
    for version in versions:
        if version.schema.kind != schema.kind:
            messages = [_DIFFERENT_KIND]
        else:
            messages = [
                message
                for comparison in asked[id(version)]
                for message in _messages(found[comparison], schema, comparison)
            ]
        if messages:
            return [
                *dict.fromkeys(messages),
                f"{{oldSchemaVersion: {version.number}}}",
                f"{{oldSchema: '{version.schema.text}'}}",
                f"{{validateFields: 'false', compatibility: '{level}'}}",
            ]
    return []


def _comparisons(
    known: Knowledge, schema: Schema, version: Version, level: Level
) -> list[Comparison]:
    if schema == version.schema:
        return []
    new = source_of(known, schema)
    old = source_of(known, version.schema)
    comparisons = []
    if level.new_reads_old:
        comparisons.append(Comparison(new, old))
    if level.old_reads_new:
        comparisons.append(Comparison(old, new))
    return comparisons


def _messages(answer: Compared | NoSchema, schema: Schema, comparison: Comparison) -> list[str]:
    if isinstance(answer, NoSchema):
        return [f"The schemas could not be compared: {answer.reason}"]
    reader = "new" if comparison.reader.text == schema.text else "old"
    return [
        f"{{errorType:'{each.kind}', description:'The {reader} schema cannot read the other at "
        f"{each.path}: {each.message}'}}"
        for each in answer.incompatibilities
    ]


def to_fit(state: State, subject: str, level: Level) -> list[Version]:
    """Return the versions that a new one of a subject must fit, the latest first."""
    versions = state.versions(subject)[::-1]
    return versions if level.is_transitive else versions[:1]


def check_fits(known: Knowledge, subject: str, schema: Schema) -> None:
    """Raise `RegistryError` (409) if a schema does not fit. Raises `Unanswered` too."""
    level = known.state.level(subject)
    messages = misfits(known, schema, to_fit(known.state, subject, level), level)
    if messages:
        raise RegistryError(INCOMPATIBLE, subject=subject, details=", ".join(messages))
