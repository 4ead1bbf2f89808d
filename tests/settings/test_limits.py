"""Settings that are limits set those limits, and users can set no other limits."""

import dataclasses
from pathlib import Path

import pytest

from tests.cli.conftest import run_command
from tms.core.limits import SETTING, Limits, PrincipalLimits, SchemaLimits
from tms.settings import Settings, WrongSettings, flag_of, load, variable_of

CONSTANTS = (
    "auth_rules_max",
    "auth_tokens_max",
    "cleanup_grace_s",
    "cleanup_keys_max",
    "cleanup_pause_ms",
    "cleanup_slice_ms",
    "cleanup_slice_rows",
    "fence_s",
    "flush_bytes_max",
    "namespaces_max",
    "poll_block_bytes",
    "queue_requests_max",
    "registry_eventual_lists",
    "registry_ids_at_once",
    "registry_references_depth_max",
    "registry_references_max",
    "registry_schemas_max",
    "request_gzip_ratio_max",
    "request_head_bytes_max",
    "request_head_s_max",
    "scheduled_s_max",
    "topic_properties_bytes_max",
    "topic_properties_max",
    "topic_scheduled_max",
    "transaction_changes_bytes_max",
    "transaction_changes_kept_bytes_max",
    "transaction_changes_max",
    "transaction_outcomes_max",
    "transaction_snapshot_edits",
    "transaction_snapshot_s",
    "transaction_snapshots_kept",
)
"""Limits that users cannot set: nobody has ever needed another value."""
SETTINGS_MAX = 101


def test_settings_are_few_enough_to_be_read() -> None:
    assert len(Settings.model_fields) <= SETTINGS_MAX


def test_a_limit_that_users_set_is_a_setting_of_the_same_name_type_and_default() -> None:
    for field in dataclasses.fields(Limits):
        if SETTING in field.metadata:
            setting = Settings.model_fields[field.name]
            assert setting.default == field.default
            assert setting.annotation is field.type
        else:
            assert field.name not in Settings.model_fields
    settings = Settings()
    assert settings.limits() == Limits()
    assert settings.principal_limits() == PrincipalLimits()
    assert settings.schema_limits() == SchemaLimits()


def test_limits_of_principals_and_schemas_have_their_settings() -> None:
    flags = {"principal_polls_max": "3", "registry_schema_bytes_max": "5", "clock_hold_s": "0"}

    settings = load(flags).settings

    assert settings.principal_limits() == PrincipalLimits(polls_max=3)
    assert settings.schema_limits() == SchemaLimits(schema_bytes_max=5)
    assert settings.limits() == Limits(clock_hold_s=0)


def test_a_constant_is_not_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CONSTANTS:
        monkeypatch.setenv(variable_of(name), "1")
    file = tmp_path / "tms.toml"
    file.write_text("[advanced]\n" + "".join(f"{name} = 1\n" for name in CONSTANTS))

    with pytest.raises(WrongSettings) as wrong:
        load({}, file)

    told = [problem.partition(";")[0] for problem in wrong.value.problems]
    variables = sorted(map(variable_of, CONSTANTS))
    by_variable = [f"environment variable {each} is not a setting" for each in variables]
    assert told == by_variable + [f"{file}: {name} is not a setting" for name in CONSTANTS]
    code, _, error = run_command("serve", flag_of(CONSTANTS[0]), "1")
    assert (code, f"No such option: {flag_of(CONSTANTS[0])}" in error) == (2, True)
