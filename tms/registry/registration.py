"""Decides on a registration. Pure: state, request and findings in, decision out.

The order of the checks is Confluent's: is the subject a name, the text a schema, does it exist
already, may it be registered now, does it fit earlier versions.
"""

from dataclasses import dataclass, replace

from tms.core.services.schemas import NUMBER_MAX, SubmittedSchema
from tms.registry.compatibility import check_fits
from tms.registry.contracts import (
    NOTHING,
    check_rules,
    contract_of,
    kept,
    merged,
    named_number,
    numbered,
    unnumbered,
)
from tms.registry.sources import schema_of, versions_of_text
from tms.registry.state.decision import Decided
from tms.registry.state.knowledge import Knowledge
from tms.registry.state.records import Purged, SchemaWritten
from tms.registry.state.refusal import (
    INVALID_SCHEMA,
    INVALID_VERSION,
    NOT_PERMITTED,
    REFERENCED,
    TOO_LARGE,
    RegistryError,
)
from tms.registry.state.registry_state import State, Version
from tms.registry.state.schema import Schema, is_number
from tms.registry.state.settings import Mode
from tms.registry.state.subjects import check_subject, context_of

NEXT_VERSION = -1


@dataclass(frozen=True, slots=True)
class SchemaToRegister:
    """A request to register a schema."""

    subject: str
    submitted: SubmittedSchema
    id: int | None = None
    """The id that it must have, if schemas are imported."""
    version: int | None = None
    """The version that it must be; by default the next one."""
    is_numbered: bool = False
    """Whether a new version's metadata gets its number even if the request names none."""

    @property
    def names_version(self) -> bool:
        """Whether it names its version."""
        return self.version is not None and self.version > 0


@dataclass(frozen=True, slots=True)
class Registered:
    """The answer to a registration."""

    id: int
    version: int
    schema: Schema


def register(knowledge: Knowledge, request: SchemaToRegister) -> Decided[Registered]:
    """Decide on a registration. Raises `RegistryError`, `Unanswered`, `IdsWanted`."""
    state, limits = knowledge.state, knowledge.limits
    _check_numbers(request)
    check_rules(request.submitted.rule_set)
    subject = check_subject(request.subject)
    mode = state.mode(subject)
    schema = _schema(knowledge, request, subject, mode)
    there = _same_version(knowledge, subject, schema, request, mode)
    if there is not None:
        return Decided(Registered(there.id, there.number, there.schema))
    _check_mode(mode, subject, request.id)
    if mode is not Mode.IMPORT:
        check_fits(knowledge, subject, schema)
    if state.versions_count >= limits.schemas_max:
        raise RegistryError(
            TOO_LARGE, reason=f"The limit of {limits.schemas_max} versions is reached"
        )
    number = _number(state, subject, request.version, mode)
    if mode is not Mode.IMPORT:
        is_named = request.names_version or request.is_numbered
        contract = numbered(contract_of(schema), number, is_named=is_named)
        schema = replace(schema, metadata=contract.metadata)
    schema_id = _id(knowledge, subject, schema, request.id)
    record = SchemaWritten(subject, number, schema_id, schema)
    gone = [Purged(key) for version in _replaced(state, record) for key in version.keys]
    return Decided(Registered(schema_id, number, schema), [[record, *gone]])


def _check_numbers(request: SchemaToRegister) -> None:
    """Raise `RegistryError` (42201, 42202) if an id or version is out of range."""
    if request.id is not None and not is_number(request.id):
        raise RegistryError(INVALID_SCHEMA, reason=f"An id is a number from 1 to {NUMBER_MAX}")
    number = request.version
    if number not in (None, 0, NEXT_VERSION) and not is_number(number or 0):
        raise RegistryError(INVALID_VERSION, version=_shown(number))


def _shown(number: int | None) -> str:
    """Return a number for an error, without writing out many digits."""
    is_short = number is not None and abs(number) <= 2 * NUMBER_MAX
    return str(number) if is_short else "out of bounds"


def _schema(knowledge: Knowledge, request: SchemaToRegister, subject: str, mode: Mode) -> Schema:
    """Return the submitted schema; without a text, it has the latest version's.

    An imported schema stays as it is; others get metadata and rules of the version before.
    """
    submitted, latest = request.submitted, knowledge.state.latest(subject)
    submitted_contract = contract_of(submitted)
    if mode is Mode.IMPORT:
        contract = kept(submitted_contract)
    else:
        contract = merged(submitted_contract, knowledge.state.config(subject), latest)
    if submitted.text:
        is_new = mode is not Mode.IMPORT
        return schema_of(knowledge, submitted, subject, contract, is_new=is_new)
    if latest is None:
        raise RegistryError(INVALID_SCHEMA, reason="Empty schema")
    return replace(latest.schema, metadata=contract.metadata, rule_set=contract.rule_set)


def _same_version(
    knowledge: Knowledge, subject: str, schema: Schema, request: SchemaToRegister, mode: Mode
) -> Version | None:
    """Return the latest live version that has a schema, and the requested id if there is one.

    A request with a text but no metadata and rules means any version of that text. One that also
    names a version means a new one, unless it imports.
    """
    submitted_contract = contract_of(request.submitted)
    says_nothing = submitted_contract == NOTHING
    number = named_number(submitted_contract)
    is_next = number is not None and number <= 0
    if mode is not Mode.IMPORT and (is_next or (request.names_version and says_nothing)):
        return None
    any_contract = bool(request.submitted.text) and says_nothing
    contract = unnumbered(contract_of(schema))

    def is_meant(version: Version) -> bool:
        is_same = any_contract or unnumbered(contract_of(version.schema)) == contract
        is_named = request.names_version and mode is not Mode.IMPORT
        is_version = not is_named or request.version == version.number
        return is_same and is_version and request.id in (None, version.id)

    live = knowledge.state.versions(subject)
    same = versions_of_text(knowledge, schema, live, is_meant, request.submitted)
    return next((each for each in same if each.number == number), same[0] if same else None)


def _check_mode(mode: Mode, subject: str, wanted_id: int | None) -> None:
    context = context_of(subject).removeprefix(".")
    where = f"Subject {subject} in context {context}"
    if mode.is_read_only:
        raise RegistryError(NOT_PERMITTED, reason=f"{where} is in read-only mode")
    if wanted_id is not None and mode is not Mode.IMPORT:
        raise RegistryError(NOT_PERMITTED, reason=f"{where} is not in import mode")
    if wanted_id is None and mode is Mode.IMPORT:
        raise RegistryError(NOT_PERMITTED, reason=f"{where} is not in read-write mode")


def _number(state: State, subject: str, version: int | None, mode: Mode) -> int:
    """Return the number of the new version."""
    following = state.last_number(subject) + 1
    if version in (None, 0, NEXT_VERSION):
        number = following
    elif mode is Mode.IMPORT:
        number = _imported(state, subject, version)
    elif version == following:
        number = following
    else:
        raise RegistryError(INVALID_SCHEMA, reason="Version is not one more than previous version")
    if number > NUMBER_MAX:
        raise RegistryError(INVALID_SCHEMA, reason="There are no more version numbers")
    return number


def _imported(state: State, subject: str, version: int | None) -> int:
    assert version is not None
    taken = state.version(subject, version)
    is_live = taken is not None and not taken.is_deleted
    if is_live or version in state.lost.get(subject, ()):
        raise RegistryError(
            NOT_PERMITTED,
            reason=f"Overwrite version {version} of subject {subject} is not permitted.",
        )
    return version


def _id(knowledge: Knowledge, subject: str, schema: Schema, schema_id: int | None) -> int:
    """Return the id of the new version: the schema's existing one in the context, or the next."""
    context = context_of(subject)
    space = knowledge.state.space(context)
    if schema_id is None:
        ids = space.ids.get(schema.identity)
        # The least, because a compacted log does not have the order of assignment.
        return min(ids) if ids else knowledge.next_id(context)
    there = space.schema(schema_id)
    if there is not None and there != schema:
        shown = context.removeprefix(".")
        reason = f"Overwrite new schema with id {schema_id} in context {shown} is not permitted."
        raise RegistryError(NOT_PERMITTED, reason=reason)
    return schema_id


def _replaced(state: State, record: SchemaWritten) -> list[Version]:
    """Return the soft-deleted versions that the new one replaces: those of its id or number.

    One that another version refers to stays. Raises `RegistryError` (42206) if that had another
    schema then.
    """
    replaced = []
    for version in state.versions(record.subject, deleted=True):
        if version.number == record.version:
            if version.id != record.id and state.referrers(version, deleted=True):
                raise RegistryError(REFERENCED, subject=version.subject, version=version.number)
            replaced.append(version)
        elif version.is_deleted and version.id == record.id:
            replaced += [] if state.referrers(version, deleted=True) else [version]
    return replaced
