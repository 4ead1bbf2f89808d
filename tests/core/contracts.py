"""Hypothesis strategies of metadata and rules."""

from hypothesis import strategies as st

from tms.core.values.schema_contracts import (
    RuleKind,
    RuleMode,
    SchemaMetadata,
    SchemaRule,
    SchemaRuleSet,
    ordered_metadata,
    ordered_rules,
)

NAMES = st.text("abc_", min_size=1, max_size=3)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
PROPERTIES = st.none() | st.dictionaries(NAMES, TEXTS, max_size=3)
TAGS = st.none() | st.lists(NAMES, max_size=3)
METADATA = st.builds(
    SchemaMetadata,
    st.none() | st.dictionaries(NAMES, st.lists(NAMES), max_size=2),
    PROPERTIES,
    TAGS,
).map(ordered_metadata)
MIGRATIONS = [mode for mode in RuleMode if mode.is_migration]
OTHERS = [mode for mode in RuleMode if not mode.is_migration]


def rules(modes: list[RuleMode]) -> st.SearchStrategy[list[SchemaRule] | None]:
    """Return lists of valid rules with some modes."""
    rule = st.builds(
        SchemaRule,
        name=NAMES,
        doc=st.none() | TEXTS,
        kind=st.none() | st.sampled_from(list(RuleKind)),
        mode=st.sampled_from(modes),
        type=st.sampled_from(["CEL", "ENCRYPT"]),
        tags=TAGS,
        params=PROPERTIES,
        expr=st.none() | TEXTS,
        disabled=st.none() | st.booleans(),
    )
    return st.none() | st.lists(rule, max_size=3, unique_by=lambda each: each.name)


RULE_SETS = st.builds(
    SchemaRuleSet, rules(MIGRATIONS), rules(OTHERS), rules(OTHERS), st.none() | TEXTS
).map(ordered_rules)
