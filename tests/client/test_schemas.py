"""The schema registry from Python, on a server and on a store in the process: the same rules."""

from pathlib import Path

import pytest

import tms
from tests.client.faulty_server import FaultyServer, answer

STRING, INT = '"string"', '"int"'
USER = '{"type":"record","name":"U","fields":[{"name":"f","type":"F"}]}'
FIXED = '{"type":"fixed","name":"F","size":3}'


def test_schemas_are_registered_found_and_deleted(client: tms.Client, namespace: str) -> None:
    registry, subject = client.registry, f"{namespace}/a b"
    told = registry.register(subject, '{"type": "string"}')
    assert (told.subject, told.version, told.schema, told.schema_type) == (
        subject,
        1,
        STRING,
        "AVRO",
    )
    assert registry.register(subject, STRING) == told
    assert registry.version(subject) == registry.version(subject, 1) == told
    assert registry.find(subject, STRING) == told
    assert registry.schema(told.id).schema == STRING
    assert subject in registry.subjects()
    assert registry.subjects(subject) == [subject]
    assert registry.versions(subject) == [1]
    assert registry.delete(subject, 1) == [1]
    assert registry.version(subject, 1, deleted=True).is_deleted
    assert registry.versions(subject, deleted=True) == [1]
    assert subject not in registry.subjects()
    assert registry.delete(subject, permanent=True) == [1]


def test_metadata_and_rules_go_with_a_schema(client: tms.Client, namespace: str) -> None:
    registry, subject = client.registry, f"{namespace}-contract"
    metadata = tms.SchemaMetadata(properties={"owner": "me"}, sensitive=["b", "a"])
    rule = tms.SchemaRule(name="short", type="CEL", mode=tms.RuleMode.WRITE, expr="true")
    rules = tms.SchemaRuleSet(domain_rules=[rule])
    told = registry.register(subject, STRING, metadata=metadata, rule_set=rules)
    assert told.metadata == tms.SchemaMetadata(properties={"owner": "me"}, sensitive=["a", "b"])
    assert told.rule_set is not None
    assert told.rule_set.domain_rules is not None
    assert told.rule_set.domain_rules[0].kind is tms.RuleKind.TRANSFORM
    assert registry.version(subject) == told
    assert registry.schema(told.id, subject).metadata == told.metadata
    assert registry.register(subject, STRING) == told
    with pytest.raises(tms.SchemaRefused):
        registry.register(
            subject, STRING, rule_set=tms.SchemaRuleSet(domain_rules=[tms.SchemaRule()])
        )


def test_the_status_reports_how_far_it_has_read(client: tms.Client, namespace: str) -> None:
    registry = client.registry
    registry.register(f"{namespace}-status", STRING)
    told = registry.status()
    assert (told.mode, told.role, told.master) == ("active", "", None)
    assert told.sequence >= told.versions >= told.subjects >= 1


def test_a_refusal_has_confluents_code(client: tms.Client, namespace: str) -> None:
    registry, subject = client.registry, f"{namespace}-s"
    registry.register(subject, INT)
    for code, call in (
        (40401, lambda: registry.version(f"{namespace}-nosuch")),
        (40402, lambda: registry.version(subject, 7)),
        (40403, lambda: registry.find(subject, STRING)),
        (42201, lambda: registry.register(subject, "{")),
        (42202, lambda: registry.version(subject, "x")),
        (409, lambda: registry.register(subject, STRING)),
        (40405, lambda: registry.delete(subject, permanent=True)),
        (42203, lambda: registry.set_compatibility("nonsense", subject)),
    ):
        with pytest.raises(tms.SchemaRefused) as refused:
            call()
        assert refused.value.detail["error_code"] == code
        assert refused.value.detail["reason"]


def test_levels_and_modes_are_set(client: tms.Client, namespace: str) -> None:
    registry, subject = client.registry, f"{namespace}-s"
    assert registry.compatibility(subject) == "BACKWARD"
    assert registry.compatibility() == "BACKWARD"
    registry.register(subject, INT)
    assert registry.why_unfit(subject, STRING)[0].startswith("{errorType:'TYPE_MISMATCH'")
    assert registry.why_unfit(subject, STRING, version=1)
    assert registry.why_unfit(subject, '"long"') == []
    assert registry.set_compatibility("none", subject) == "NONE"
    assert registry.why_unfit(subject, STRING) == []
    assert registry.mode(subject) == "READWRITE"
    assert registry.set_mode("READONLY", subject) == "READONLY"
    with pytest.raises(tms.SchemaRefused):
        registry.register(subject, STRING)
    registry.set_mode("READWRITE", subject)


def test_a_schema_refers_to_others(client: tms.Client, namespace: str) -> None:
    registry, fixed, user = client.registry, f"{namespace}-f", f"{namespace}-u"
    registry.register(fixed, FIXED)
    reference = tms.SchemaReference("F", fixed, 1)

    told = registry.register(user, USER, references=[reference])

    assert told.references == (reference,)
    assert registry.version(user).references == (reference,)
    assert registry.find(user, USER, references=[reference]).version == 1


def test_schemas_survive_a_restart(tmp_path: Path) -> None:
    url = f"leveldb:{tmp_path / 'data'}"
    with tms.connect(url) as client:
        told = client.registry.register("s", STRING)
    with tms.connect(url) as client:
        assert client.registry.version("s") == told


def test_a_log_that_is_not_reached_leaves_the_outcome_unknown() -> None:
    body = b'{"error_code": 50002, "message": "the log was not reached"}'
    given = answer(500, body)
    with (
        FaultyServer(given) as server,
        tms.connect(server.url, retry_for_s=0) as client,
        pytest.raises(tms.OutcomeUnknown, match="the log was not reached"),
    ):
        client.registry.delete("s")
