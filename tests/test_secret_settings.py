"""No error shows a secret that was put into the wrong setting."""

from pathlib import Path

import pytest

from tests.cli.conftest import run_command
from tms.settings import Settings

TOKEN = f"tms_{'a' * 12}_{'s3cret' * 7}x"
TOML = "[advanced]\nauth_tokens ="


@pytest.mark.parametrize(
    ("variable", "value", "file"),
    [
        ("TMS_AUTH_TOKENS", TOKEN, ""),
        ("TMS_AUTH_TOKENS", f"{'a' * 12}:{'0' * 64}:ann,{TOKEN}", ""),
        ("TMS_AUTH_TOKENS", f"{'a' * 12}:s3cret-of-no-form:ann", ""),
        ("TMS_AUTH", TOKEN, ""),
        ("TMS_METADATA", f"zk:{TOKEN}", ""),
        ("TMS_AUTH_JWKS", "http://me:s3cret@a/keys", ""),
        ("", "", f"{TOML} '{TOKEN}'"),
        ("", "", f"{TOML} ['{TOKEN}', 's3cret-of-no-form']"),
        ("", "", f"{TOML} {{ a = 's3cret-of-no-form' }}"),
        ("", "", f"{TOML} {TOKEN}"),
        ("", "", f'{TOML} """{TOKEN}'),
        ("", "", f"{TOKEN} = 1"),
        ("", "", f"auth = '{TOKEN}'"),
    ],
)
def test_a_token_in_a_setting_is_not_reported(
    variable: str, value: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable:
        monkeypatch.setenv(variable, value)
    config = tmp_path / "tms.toml"
    config.write_text(file)
    for command in ("serve", "config"):
        code, out, err = run_command(command, "--config", str(config))
        assert (code, out) == (2, "")
        assert err
        assert "s3cret" not in err


def test_a_token_in_a_flag_is_not_reported() -> None:
    code, out, err = run_command("serve", "--auth-tokens", TOKEN)
    assert (code, out) == (2, "")
    assert "auth_tokens is *** by --auth-tokens: give ID:SHA256:PRINCIPAL" in err


def test_a_token_is_not_in_the_error_of_who_makes_settings() -> None:
    with pytest.raises(ValueError, match="ID:SHA256:PRINCIPAL") as caught:
        Settings(auth_tokens=TOKEN)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TMS_TLS_KEY", "-----BEGIN PRIVATE KEY-----\ns3cret\n-----END PRIVATE KEY-----"),
        ("TMS_REGISTRY_TOKEN_FILE", TOKEN),
    ],
)
def test_a_secret_instead_of_its_file_is_not_reported(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = tmp_path / "cert.pem"
    certificate.write_text("-----BEGIN CERTIFICATE-----")
    monkeypatch.setenv(name, value)
    monkeypatch.setenv("TMS_LISTEN", "127.0.0.1:0")
    monkeypatch.setenv("TMS_STORE", "memory:")
    if name == "TMS_TLS_KEY":
        monkeypatch.setenv("TMS_TLS_CERT", str(certificate))
    else:
        monkeypatch.setenv("TMS_REGISTRY_LOG", "http://127.0.0.1:9")
    code, _, err = run_command("serve")
    assert code in (1, 2)
    assert err
    assert "s3cret" not in err
