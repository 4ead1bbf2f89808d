"""The metadata and rules of a schema: its own, the latest version's, and the settings'. Pure.

What a request leaves out comes from the latest version. Default settings have a lower precedence
than that, override settings the highest. `confluent:version` is the version's own number: it is
present if a request names its version or changes tags, or if it was present before.
"""

import re
from typing import NamedTuple

from tms.core.services.schemas import SubmittedSchema
from tms.core.values.schema_contracts import (
    SchemaMetadata,
    SchemaRuleSet,
    merged_metadata,
    merged_rules,
    ordered_metadata,
    ordered_rules,
    problem_of_rules,
)
from tms.registry.questions.questions import Parsed
from tms.registry.state.refusal import INVALID_RULES, RegistryError
from tms.registry.state.registry_state import Version
from tms.registry.state.schema import Schema
from tms.registry.state.settings import Config

VERSION_PROPERTY = "confluent:version"
_NUMBER = re.compile(r"-1|[0-9]{1,10}", re.ASCII)
RESERVED_PROPERTY = "confluent:reserved"
"""Names of fields that no version may have, separated by commas."""


class Contract(NamedTuple):
    """A schema's metadata and rules. None if the request leaves them out."""

    metadata: SchemaMetadata | None = None
    rule_set: SchemaRuleSet | None = None


NOTHING = Contract()


def contract_in_order(metadata: SchemaMetadata | None, rules: SchemaRuleSet | None) -> Contract:
    """Return the metadata and rules of a request, in order."""
    return Contract(
        None if metadata is None else ordered_metadata(metadata),
        None if rules is None else ordered_rules(rules),
    )


def contract_of(schema: Schema | SubmittedSchema) -> Contract:
    """Return the contract of a schema or of a request."""
    return Contract(schema.metadata, schema.rule_set)


def check_rules(rules: SchemaRuleSet | None) -> None:
    """Raise `RegistryError` (42210) if rules are wrong."""
    problem = None if rules is None else problem_of_rules(rules)
    if problem is not None:
        raise RegistryError(INVALID_RULES, reason=problem)


def merged(submitted: Contract, config: Config, latest: Version | None) -> Contract:
    """Return the contract of a new version whose request has the contract `submitted`.

    Raises `RegistryError` (42210).
    """
    before = NOTHING if latest is None else contract_of(latest.schema)
    metadata = before.metadata if submitted.metadata is None else submitted.metadata
    rules = before.rule_set if submitted.rule_set is None else submitted.rule_set
    metadata = merged_metadata(config.default_metadata, metadata)
    rules = merged_rules(config.default_rule_set, rules)
    return kept(
        Contract(
            merged_metadata(metadata, config.override_metadata),
            merged_rules(rules, config.override_rule_set),
        )
    )


def kept(contract: Contract) -> Contract:
    """Return a contract as stored, without empty parts. Raises `RegistryError`."""
    metadata, rules = contract
    check_rules(rules)
    return Contract(
        None if metadata is None or metadata == SchemaMetadata() else metadata,
        None if rules is None or rules == SchemaRuleSet() else rules,
    )


def named_number(contract: Contract) -> int | None:
    """Return the version in the metadata: 0 or -1 for the next one, None for none."""
    metadata = contract.metadata
    text = "" if metadata is None else metadata.own_properties.get(VERSION_PROPERTY, "")
    return int(text) if _NUMBER.fullmatch(text) else None


def numbered(contract: Contract, number: int, *, is_named: bool) -> Contract:
    """Return a contract for a version's number, which it includes if it `is_named`."""
    metadata = contract.metadata
    properties = {} if metadata is None else metadata.own_properties
    if not is_named and VERSION_PROPERTY not in properties:
        return contract
    properties = {**properties, VERSION_PROPERTY: str(number)}
    return contract._replace(metadata=(metadata or SchemaMetadata()).with_properties(properties))


def unnumbered(contract: Contract) -> Contract:
    """Return a contract without a version number, for comparisons."""
    metadata = contract.metadata
    if metadata is None or VERSION_PROPERTY not in metadata.own_properties:
        return contract
    others = {**metadata.own_properties}
    del others[VERSION_PROPERTY]
    return kept(contract._replace(metadata=metadata.with_properties(others)))


def property_of(schema: Schema, name: str) -> str | None:
    """Return a property in a schema's metadata."""
    return None if schema.metadata is None else schema.metadata.own_properties.get(name)


def _reserved(schema: Schema) -> set[str]:
    listed = (property_of(schema, RESERVED_PROPERTY) or "").split(",")
    return {name.strip() for name in listed} - {""}


def broken_reservations(new: Schema, parsed: Parsed, before: Schema | None) -> list[str]:
    """Return how a schema breaks reservations of metadata, for people; empty if it does not."""
    gone = set() if before is None else _reserved(before) - _reserved(new)
    removed = [
        f"{{errorType:'RESERVED_FIELD_REMOVED', description:'The new schema has reserved field "
        f"{name} removed from its metadata which is present in the old schema's metadata.'}}"
        for name in sorted(gone)
    ]
    conflicts = [
        f"{{errorType:'FIELD_CONFLICTS_WITH_RESERVED_FIELD', description:'The new schema has "
        f"field that conflicts with the reserved field {name}.'}}"
        for name in sorted(_reserved(new) & set(parsed.fields))
    ]
    return removed + conflicts
