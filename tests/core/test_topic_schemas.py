"""The subjects of a topic's schemas, and which topic properties are refused."""

import pytest

from tms.core.errors import InvalidRequest
from tms.core.values.topic import TopicId
from tms.core.values.topic_properties import check_meaning
from tms.core.values.topic_schemas import SchemaCheck, SubjectStrategy, TopicSchemas, schemas_of

ORDERS, SALES = TopicId("default", "orders"), TopicId("sales", "orders")
RECORD = "com.example.Order"


@pytest.mark.parametrize(
    ("topic", "strategy", "value", "key"),
    [
        (ORDERS, "topic", "orders-value", "orders-key"),
        (ORDERS, "record", RECORD, RECORD),
        (ORDERS, "topic_record", f"orders-{RECORD}", f"orders-{RECORD}"),
        (SALES, "topic", "sales:orders-value", "sales:orders-key"),
        (SALES, "record", RECORD, RECORD),
        (SALES, "topic_record", f"sales:orders-{RECORD}", f"sales:orders-{RECORD}"),
    ],
)
def test_subjects_are_named_as_confluents_strategies_name_them(
    topic: TopicId, strategy: str, value: str, key: str
) -> None:
    schemas = schemas_of(topic, {"subject_strategy": strategy})

    assert schemas.value_subject(RECORD) == value
    assert schemas.subject_of_key(RECORD) == key
    assert schemas.is_by_record == (strategy != "topic")


@pytest.mark.parametrize("strategy", ["topic", "record", "topic_record"])
def test_a_subject_that_is_named_is_the_one(strategy: str) -> None:
    named = {"subject": ":.ctx:x", "key_subject": "y", "subject_strategy": strategy}
    schemas = schemas_of(SALES, named)

    for record in ("", RECORD):
        assert schemas.value_subject(record) == ":.ctx:x"
        assert schemas.subject_of_key(record) == "y"
    assert not schemas.is_by_record


def test_a_subject_that_is_named_leaves_the_other_to_the_strategy() -> None:
    of_payload = schemas_of(ORDERS, {"subject": "x", "subject_strategy": "record"})
    assert of_payload.subject_of_key(RECORD) == RECORD
    of_key = schemas_of(ORDERS, {"key_subject": "x", "subject_strategy": "record"})
    assert of_key.value_subject(RECORD) == RECORD
    assert of_key.is_by_record


@pytest.mark.parametrize("strategy", ["record", "topic_record"])
def test_a_strategy_by_records_needs_a_name(strategy: str) -> None:
    schemas = schemas_of(ORDERS, {"subject_strategy": strategy})
    for name_subject in (schemas.value_subject, schemas.subject_of_key):
        with pytest.raises(ValueError, match=f"^subject_strategy {strategy} needs a schema"):
            name_subject("")


def test_the_strategy_by_topics_needs_no_name() -> None:
    assert schemas_of(ORDERS, {}).value_subject("") == "orders-value"


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"owner": "me"},
        {"subject": "", "key_subject": ""},
        {"subject_strategy": "", "schema_check": ""},
        {"subject_strategy": "Record", "schema_check": "FULL"},
        {"subject_strategy": "no\nsuch", "schema_check": "yes"},
    ],
)
def test_properties_that_cannot_be_read_count_as_none(properties: dict[str, str]) -> None:
    assert schemas_of(ORDERS, properties) == TopicSchemas(
        ORDERS, None, None, SubjectStrategy.TOPIC, SchemaCheck.OFF
    )


@pytest.mark.parametrize("check", ["off", "id", "full"])
def test_how_payloads_are_checked_is_read(check: str) -> None:
    assert schemas_of(ORDERS, {"schema_check": check}).check == SchemaCheck(check)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("subject", ""),
        ("subject", "x" * 1025),
        ("subject", "a\nb"),
        ("subject", "\0"),
        ("key_subject", ""),
        ("key_subject", "a\tb"),
        ("subject_strategy", ""),
        ("subject_strategy", "RECORD"),
        ("subject_strategy", "topic-record"),
        ("schema_check", ""),
        ("schema_check", "on"),
        ("schema_check", "Full"),
        ("schema_", "x"),
        ("schema_registry", "x"),
    ],
)
def test_a_property_that_says_nothing_is_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_meaning({"owner": "me", name: value})

    assert refused.value.problem.code == "invalid_properties"
    assert refused.value.detail["property"] == name
    assert refused.value.detail["value"] == value[:100]


@pytest.mark.parametrize(
    "properties",
    [
        {"subject": "x" * 1024, "key_subject": ":.ctx:a b/c"},
        {"subject": "\u00e9"},
        {"subject_strategy": "topic_record", "schema_check": "id"},
        {"schemas": "x", "subjects": "", "my_schema_check": "on"},
    ],
)
def test_properties_that_say_something_and_others_are_taken(properties: dict[str, str]) -> None:
    check_meaning(properties)
