"""Metadata and rules: the result of merging, and invalid rules."""

import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.contracts import METADATA, RULE_SETS
from tms.core.values.schema_contracts import (
    RuleMode,
    SchemaMetadata,
    SchemaRule,
    SchemaRuleSet,
    digest_metadata,
    digest_rules,
    merged_metadata,
    merged_rules,
    ordered_metadata,
    ordered_rules,
    problem_of_rules,
    without_rules,
)


@given(METADATA)
def test_metadata_in_order_stays_as_it_is(metadata: SchemaMetadata) -> None:
    assert ordered_metadata(metadata) == metadata
    assert merged_metadata(metadata, metadata) == metadata
    assert merged_metadata(None, metadata) is metadata is merged_metadata(metadata, None)
    encoded = msgspec.json.encode(metadata)
    assert msgspec.json.decode(encoded, type=SchemaMetadata) == metadata


@given(METADATA, METADATA)
def test_of_two_metadata_the_second_counts(first: SchemaMetadata, second: SchemaMetadata) -> None:
    merged = merged_metadata(first, second)
    assert merged is not None
    assert merged.own_properties == {**first.own_properties, **second.own_properties}
    assert (merged.tags or {}) == {**(first.tags or {}), **(second.tags or {})}
    assert set(merged.sensitive or ()) == {*(first.sensitive or ()), *(second.sensitive or ())}


@given(RULE_SETS, RULE_SETS)
def test_of_two_rules_of_a_name_the_second_counts(
    first: SchemaRuleSet, second: SchemaRuleSet
) -> None:
    merged = merged_rules(first, second)
    assert merged is not None
    assert problem_of_rules(merged) is None
    names = {rule.name for rule in second.domain_rules or ()}
    kept = [rule for rule in first.domain_rules or () if rule.name not in names]
    assert (merged.domain_rules or []) == kept + (second.domain_rules or [])
    assert ordered_rules(merged) == merged


@given(RULE_SETS, st.sets(st.text("abc_", min_size=1, max_size=3)))
def test_rules_are_taken_out_by_name(rules: SchemaRuleSet, names: set[str]) -> None:
    left = [rule for rule in rules.all_rules() if rule.name not in names]
    assert list(without_rules(rules, names).all_rules()) == left


@given(METADATA, RULE_SETS)
def test_the_digest_is_that_of_confluents_clients(
    metadata: SchemaMetadata, rules: SchemaRuleSet
) -> None:
    told = hashlib.md5(usedforsecurity=False)
    digest_metadata(told, metadata)
    digest_rules(told, rules)
    written = []
    for path, tags in (metadata.tags or {}).items():
        written += [path, *tags]
    for pair in metadata.own_properties.items():
        written += pair
    written += metadata.sensitive or []
    for rule in rules.all_rules():
        assert rule.kind is not None
        assert rule.mode is not None
        written += [rule.name or "", rule.doc or "", rule.kind.name, rule.mode.name]
        written += [rule.type or "", *(rule.tags or [])]
        for pair in (rule.params or {}).items():
            written += pair
        written += [rule.expr or "", *(["\x01"] if rule.disabled else [])]
    assert told.digest() == hashlib.md5("".join(written).encode()).digest()


UP, WRITE = RuleMode.UPGRADE, RuleMode.WRITE


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        (SchemaRuleSet(domain_rules=[SchemaRule(name="a", mode=WRITE, type="CEL")]), None),
        (SchemaRuleSet(migration_rules=[SchemaRule(name="a", mode=UP, type="JSONATA")]), None),
        (SchemaRuleSet(domain_rules=[SchemaRule(name="a", mode=UP, type="CEL")]), "Domain"),
        (
            SchemaRuleSet(migration_rules=[SchemaRule(name="a", mode=WRITE, type="CEL")]),
            "Migration",
        ),
        (SchemaRuleSet(domain_rules=[SchemaRule(name="a", mode=WRITE)]), "Missing rule type"),
        (SchemaRuleSet(domain_rules=[SchemaRule(mode=WRITE, type="CEL")]), "Missing rule name"),
        (
            SchemaRuleSet(domain_rules=[SchemaRule(name="1a", mode=WRITE, type="CEL")]),
            "Illegal initial",
        ),
        (
            SchemaRuleSet(domain_rules=[SchemaRule(name="a-b", mode=WRITE, type="CEL")]),
            "Illegal character",
        ),
        (
            SchemaRuleSet(encoding_rules=[SchemaRule(name="a", mode=WRITE, type="CEL")] * 2),
            "duplicate name",
        ),
    ],
)
def test_wrong_rules_are_reported(rules: SchemaRuleSet, problem: str | None) -> None:
    told = problem_of_rules(ordered_rules(rules))
    assert told is None if problem is None else told is not None and problem in told
