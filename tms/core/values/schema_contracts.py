"""The metadata and rules of a schema: plain data, as in Confluent's registry.

The registry stores and returns them; clients apply the rules. Maps and sets are sorted by their
bytes, so equal ones are written alike.
"""

import hashlib
from collections.abc import Callable, Iterable
from enum import StrEnum

import msgspec


class RuleKind(StrEnum):
    """The effect of a rule on a message."""

    TRANSFORM = "TRANSFORM"
    CONDITION = "CONDITION"


class RuleMode(StrEnum):
    """When a rule is applied."""

    UPGRADE = "UPGRADE"
    DOWNGRADE = "DOWNGRADE"
    UPDOWN = "UPDOWN"
    WRITE = "WRITE"
    READ = "READ"
    WRITEREAD = "WRITEREAD"

    @property
    def is_migration(self) -> bool:
        """Whether it applies between versions, not when writing or reading."""
        return self in (RuleMode.UPGRADE, RuleMode.DOWNGRADE, RuleMode.UPDOWN)


class SchemaMetadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """Notes on a schema."""

    tags: dict[str, list[str]] | None = None
    """Tags by path in the schema."""
    properties: dict[str, str] | None = None
    sensitive: list[str] | None = None
    """The names of properties that are secret."""

    @property
    def own_properties(self) -> dict[str, str]:
        """The properties, possibly none."""
        return self.properties or {}

    def with_properties(self, properties: dict[str, str]) -> "SchemaMetadata":
        """Return the metadata with other properties."""
        return msgspec.structs.replace(self, properties=_ordered(properties))


class SchemaRule(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A rule for messages of a schema."""

    name: str | None = None
    doc: str | None = None
    kind: RuleKind | None = None
    mode: RuleMode | None = None
    type: str | None = None
    tags: list[str] | None = None
    params: dict[str, str] | None = None
    expr: str | None = None
    on_success: str | None = None
    on_failure: str | None = None
    disabled: bool | None = None


class SchemaRuleSet(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The rules of a schema."""

    migration_rules: list[SchemaRule] | None = None
    domain_rules: list[SchemaRule] | None = None
    encoding_rules: list[SchemaRule] | None = None
    enable_at: str | None = None
    """When clients should start to apply them."""

    def all_rules(self) -> Iterable[SchemaRule]:
        """Yield the rules of both lists."""
        for rules in (self.migration_rules, self.domain_rules, self.encoding_rules):
            yield from rules or ()


def ordered_metadata(metadata: SchemaMetadata) -> SchemaMetadata:
    """Return metadata in order, without empty parts."""
    tags = {path: sorted(set(named)) for path, named in sorted((metadata.tags or {}).items())}
    return SchemaMetadata(
        tags or None,
        _ordered(metadata.properties or {}),
        sorted(set(metadata.sensitive or ())) or None,
    )


def ordered_rules(rule_set: SchemaRuleSet) -> SchemaRuleSet:
    """Return rules with defaults filled in, without empty lists."""
    return _each_list(rule_set, lambda rules: [_ordered_rule(rule) for rule in rules])


def _each_list(
    rules: SchemaRuleSet, change: Callable[[list[SchemaRule]], list[SchemaRule]]
) -> SchemaRuleSet:
    """Return rules with each list changed; lists that become empty are dropped."""
    return msgspec.structs.replace(
        rules,
        migration_rules=change(rules.migration_rules or []) or None,
        domain_rules=change(rules.domain_rules or []) or None,
        encoding_rules=change(rules.encoding_rules or []) or None,
    )


def _ordered_rule(rule: SchemaRule) -> SchemaRule:
    return msgspec.structs.replace(
        rule,
        kind=rule.kind or RuleKind.TRANSFORM,
        mode=rule.mode or RuleMode.WRITEREAD,
        tags=sorted(set(rule.tags or ())) or None,
        params=_ordered(rule.params or {}),
        disabled=bool(rule.disabled),
    )


def _ordered(properties: dict[str, str]) -> dict[str, str] | None:
    return dict(sorted(properties.items())) or None


def problem_of_rules(rules: SchemaRuleSet) -> str | None:
    """Return what is wrong with rules, for people; None if they are valid."""
    migrating, others = rules.migration_rules or [], [rules.domain_rules, rules.encoding_rules]
    if any(not rule.mode or not rule.mode.is_migration for rule in migrating):
        return "Migration rules can only be UPGRADE, DOWNGRADE, UPDOWN"
    if any(rule.mode and rule.mode.is_migration for other in others for rule in other or ()):
        return "Domain and encoding rules can only be WRITE, READ, WRITEREAD"
    for each in (migrating, *others):
        problem = _problem_of_names(each or [])
        if problem is not None:
            return problem
    return None


def _problem_of_names(rules: list[SchemaRule]) -> str | None:
    names: set[str] = set()
    for rule in rules:
        name = rule.name
        if not name:
            return "Missing rule name"
        if not (name[0].isalpha() or name[0] == "_"):
            return f"Illegal initial character in rule name: {name}"
        if not all(char.isalnum() or char == "_" for char in name):
            return f"Illegal character in rule name: {name}"
        if name in names:
            return f"Found rule with duplicate name '{name}'"
        if rule.type is None:
            return "Missing rule type"
        names.add(name)
    return None


def merged_metadata(
    first: SchemaMetadata | None, second: SchemaMetadata | None
) -> SchemaMetadata | None:
    """Return both merged; the second wins for a property or a path that both have."""
    if first is None or second is None:
        return second if first is None else first
    return ordered_metadata(
        SchemaMetadata(
            {**(first.tags or {}), **(second.tags or {})},
            {**first.own_properties, **second.own_properties},
            [*(first.sensitive or ()), *(second.sensitive or ())],
        )
    )


def merged_rules(first: SchemaRuleSet | None, second: SchemaRuleSet | None) -> SchemaRuleSet | None:
    """Return both merged; for equal names the second's rule, after the first's other rules."""
    if first is None or second is None:
        return second if first is None else first
    return SchemaRuleSet(
        _merged_list(first.migration_rules, second.migration_rules),
        _merged_list(first.domain_rules, second.domain_rules),
        _merged_list(first.encoding_rules, second.encoding_rules),
        second.enable_at or first.enable_at,
    )


def _merged_list(
    first: list[SchemaRule] | None, second: list[SchemaRule] | None
) -> list[SchemaRule] | None:
    names = {rule.name for rule in second or ()}
    return [*(rule for rule in first or () if rule.name not in names), *(second or ())] or None


def without_rules(rules: SchemaRuleSet, names: Iterable[str]) -> SchemaRuleSet:
    """Return rules without those that have certain names."""
    gone = set(names)
    return _each_list(rules, lambda each: [rule for rule in each if rule.name not in gone])


def digest_metadata(digest: "hashlib._Hash", metadata: SchemaMetadata) -> None:
    """Add metadata to a guid's digest, as Confluent's clients do."""
    for path, tags in (metadata.tags or {}).items():
        _add(digest, path, *tags)
    for name, value in metadata.own_properties.items():
        _add(digest, name, value)
    _add(digest, *(metadata.sensitive or ()))


def digest_rules(digest: "hashlib._Hash", rules: SchemaRuleSet) -> None:
    """Add rules to a guid's digest, as Confluent's clients do."""
    for rule in rules.all_rules():
        _add(digest, rule.name, rule.doc, rule.kind, rule.mode, rule.type, *(rule.tags or ()))
        for name, value in (rule.params or {}).items():
            _add(digest, name, value)
        _add(digest, rule.expr, rule.on_success, rule.on_failure)
        if rule.disabled:
            digest.update(b"\x01")


def _add(digest: "hashlib._Hash", *texts: str | None) -> None:
    for text in texts:
        digest.update((text or "").encode(errors="replace"))
