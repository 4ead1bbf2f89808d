"""Decides on tags within schemas: sent with a registration, or for a version. Pure."""

from dataclasses import dataclass, replace

from tms.core.services.schemas import SubmittedSchema
from tms.core.values.schema_contracts import SchemaRuleSet, merged_rules, without_rules
from tms.registry import lookup
from tms.registry.contracts import Contract, contract_of
from tms.registry.questions.questions import Tagged, Tags, TextInForm
from tms.registry.registration import Registered, SchemaToRegister, register
from tms.registry.sources import schema_of, source_of
from tms.registry.state.decision import Decided
from tms.registry.state.knowledge import Knowledge
from tms.registry.state.schema import Schema
from tms.registry.state.subjects import check_subject


@dataclass(frozen=True, slots=True)
class TagChange:
    """Tags to add to a schema, and to remove."""

    added: Tags = ()
    removed: Tags = ()
    from_latest: bool = False
    """Whether to add those of the latest version, too."""
    if_there: Tags = ()
    """Tags to add if the schema has their entities."""


@dataclass(frozen=True, slots=True)
class TagsToWrite:
    """A request for a new version: an earlier one with other tags."""

    subject: str
    token: str
    """The earlier version: a number, or `latest`."""
    change: TagChange
    contract: Contract
    """Metadata and rules; None for the earlier version's."""
    rules_to_merge: SchemaRuleSet | None = None
    rules_to_remove: tuple[str, ...] = ()
    new_version: int | None = None


def register_tagged(
    knowledge: Knowledge, request: SchemaToRegister, change: TagChange
) -> Decided[Registered]:
    """Decide on a registration with tags. Raises as `register`, 42201 if an entity is missing."""
    subject, submitted = check_subject(request.subject), request.submitted
    latest = knowledge.state.latest(subject)
    if submitted.text or latest is None:
        schema = schema_of(knowledge, replace(submitted, normalize=False), subject)
    else:
        schema = latest.schema
    if change.from_latest and latest is not None:
        change = replace(change, if_there=lookup.tags_in(knowledge, latest.schema))
    submitted = replace(
        submitted,
        text=_tagged(knowledge, schema, change),
        kind=schema.kind,
        references=schema.references,
    )
    is_numbered = bool(change.added or change.removed)
    return register(knowledge, replace(request, submitted=submitted, is_numbered=is_numbered))


def _tagged(knowledge: Knowledge, schema: Schema, change: TagChange) -> str:
    source = source_of(knowledge, schema)
    question = Tagged(source, change.added, change.removed, change.if_there)
    return knowledge.answer_to(question, TextInForm).text


def write_tags(knowledge: Knowledge, request: TagsToWrite) -> Decided[Registered]:
    """Decide on a new version: an earlier one with other tags. Raises as `register`."""
    version = lookup.version(knowledge.state, request.subject, request.token)
    schema, before = version.schema, contract_of(version.schema)
    rules = before.rule_set if request.contract.rule_set is None else request.contract.rule_set
    rules = merged_rules(rules, request.rules_to_merge)
    if rules is not None and request.rules_to_remove:
        rules = without_rules(rules, request.rules_to_remove)
    metadata = before.metadata if request.contract.metadata is None else request.contract.metadata
    text = _tagged(knowledge, schema, request.change)
    submitted = SubmittedSchema(
        text, schema.kind, schema.references, metadata=metadata, rule_set=rules
    )
    registration = SchemaToRegister(
        version.subject, submitted, version=request.new_version, is_numbered=True
    )
    return register(knowledge, registration)
