"""The settings that are limits are made from them, and the other limits no user can set."""

import dataclasses
from pathlib import Path

import pytest

from tests.cli.conftest import run_command
from tms.core.limits import SETTING, Limits, PrincipalLimits, SchemaLimits
from tms.settings import Settings, WrongSettings, flag_of, load, variable_of


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
    flags = {"principal_polls_max": "3", "registry_references_max": "5", "clock_hold_s": "0"}

    settings = load(flags).settings

    assert settings.principal_limits() == PrincipalLimits(polls_max=3)
    assert settings.schema_limits() == SchemaLimits(references_max=5)
    assert settings.limits() == Limits(clock_hold_s=0)


@pytest.mark.parametrize("name", ["fence_s", "poll_block_bytes", "registry_references_depth_max"])
def test_a_constant_is_not_a_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(variable_of(name), "1")
    file = tmp_path / "tms.toml"
    file.write_text(f"[advanced]\n{name} = 1\n")

    with pytest.raises(WrongSettings) as wrong:
        load({}, file)
    by_variable, by_file = wrong.value.problems
    assert by_variable.startswith(f"environment variable {variable_of(name)} is not a setting")
    assert by_file.startswith(f"{file}: {name} is not a setting")
    code, _, told = run_command("serve", flag_of(name), "1")
    assert (code, f"No such option: {flag_of(name)}" in told) == (2, True)
