"""`tms auth`, and the credentials of commands."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import tms
from tests.cli.conftest import run_command
from tests.servers.guard import Guard, guarding
from tests.servers.server_process import ServerProcess
from tests.waiting import WAIT_S_MAX, wait_until
from tms.core.runtime.tls import TlsFiles, server_context
from tms.security.tokens import KeptToken, is_token
from tms.settings import Settings, load

CREATED = (0, "Created topic hello.\n", "")
FILES = ("ca-key.pem", "ca.pem", "server-key.pem", "server.pem", "tms.toml", "token")


def openssl(*arguments: str) -> str:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def names_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that `tms auth init` writes."""
    folder = tmp_path / "own"
    code, _, err = run_command(
        "auth", "init", str(folder), "--host", "tms.example", "--host", "::2"
    )
    assert (code, err) == (0, "")
    return folder


def test_what_it_writes_is_its_owners_alone(folder: Path) -> None:
    assert names_in(folder) == list(FILES)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {(folder / name).stat().st_mode & 0o777 for name in FILES} == {0o600}


def test_it_says_where_the_store_will_be(tmp_path: Path) -> None:
    _, out, _ = run_command("auth", "init", str(tmp_path / "own"))

    assert load({}, tmp_path / "own/tms.toml").settings.store == Settings().store
    assert Settings().store.removeprefix("leveldb:") in out


def test_it_shows_no_secret(tmp_path: Path) -> None:
    outputs = [
        run_command("auth", "init", str(tmp_path / name), *flags)
        for name, flags in (("a", ()), ("b", ("--json",)))
    ]

    for name, (_, out, err) in zip("ab", outputs, strict=True):
        token = (tmp_path / name / "token").read_text().strip()
        assert token not in out + err
        assert token not in (tmp_path / name / "tms.toml").read_text()
        assert "PRIVATE" not in out + err
    assert set(json.loads(outputs[1][1])) == set(FILES)


@pytest.mark.parametrize("there", FILES)
def test_it_overwrites_nothing(tmp_path: Path, there: str) -> None:
    folder = tmp_path / "own"
    folder.mkdir(mode=0o700)
    (folder / there).symlink_to(tmp_path / "elsewhere")

    code, _, err = run_command("auth", "init", str(folder))

    assert code == 2
    assert f"{there} exists already" in err
    assert names_in(folder) == [there]
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_others_look_into_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    code, _, err = run_command("auth", "init", str(tmp_path))

    assert code == 2
    assert "chmod 700" in err


@pytest.mark.parametrize("host", ["", "a b", "http://a", "a:1", "ü.example"])
def test_what_is_not_a_host_is_reported(tmp_path: Path, host: str) -> None:
    code, _, err = run_command("auth", "init", str(tmp_path / "own"), "--host", host)

    assert code == 2
    assert "is not a valid host name" in err
    assert not (tmp_path / "own").exists()


def test_the_certificates_are_for_the_names_and_of_the_authority(folder: Path) -> None:
    ca, server = str(folder / "ca.pem"), str(folder / "server.pem")
    told = openssl("x509", "-in", server, "-noout", "-text")

    assert "OK" in openssl("verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", ca, server)
    for name in ("DNS:localhost", "IP Address:127.0.0.1", "DNS:tms.example", "0:0:0:0:0:0:0:2"):
        assert name in told
    server_context(TlsFiles(server, str(folder / "server-key.pem"), ca))


def test_the_settings_are_those_of_a_safe_server(folder: Path) -> None:
    settings = load({}, folder / "tms.toml").settings
    token = (folder / "token").read_text().strip()
    token_id, sha256, principal = settings.auth_tokens.split(":")

    settings.check_safe("0.0.0.0")
    assert settings.auth == "required"
    assert settings.superuser_names == {"admin"}
    assert is_token(token, KeptToken(token_id, bytes.fromhex(sha256), principal), 0)
    assert principal == "admin"


def test_a_server_serves_by_them_and_the_client_trusts_it(folder: Path) -> None:
    with ServerProcess("memory:", "--config", str(folder / "tms.toml")) as server:
        with tms.connect(server.url, ca=folder / "ca.pem", auth=folder / "token") as client:
            assert client.topics() == []
        ca, token = str(folder / "ca.pem"), str(folder / "token")
        options = ("--url", server.url, "--ca", ca, "--token-file", token)
        assert run_command("topic", "create", "hello", *options) == CREATED
        assert run_command(*options, "topic", "list") == (0, "hello\n", "")
        assert run_command("cleanup", "show", *options)[0] == 0
        code, _, err = run_command("topic", "list", "--url", server.url)
        assert code == 1
        assert "is not trusted" in err
        assert server.stop() == 0


def test_the_commands_it_greets_with_do_as_they_stand(folder: Path) -> None:
    token = (folder / "token").read_text().strip()
    with ServerProcess("memory:", "--config", str(folder / "tms.toml")) as server:
        assert server.url.startswith("https://")
        wait_until(lambda: "Stop it" in server.log)
        commands = [line for line in server.log.splitlines() if line.startswith("  curl")]
        done = subprocess.run(
            ["bash", "-ec", "\n".join(commands)],
            env={**os.environ, "TMS_TOKEN": token},
            capture_output=True,
            text=True,
            timeout=WAIT_S_MAX,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    assert '"payload":"hello, world"' in done.stdout
    assert token not in server.log


def test_a_certificate_of_a_client_names_the_principal(folder: Path) -> None:
    code, out, _ = run_command("auth", "certificate", str(folder), "alice@example.com")
    made = [folder / name for name in ("alice@example.com.pem", "alice@example.com-key.pem")]

    assert code == 0
    assert str(made[0]) in out
    assert [each.stat().st_mode & 0o777 for each in made] == [0o600] * 2
    assert "CN = alice@example.com" in openssl("x509", "-in", str(made[0]), "-noout", "-subject")
    ca = str(folder / "ca.pem")
    assert "OK" in openssl("verify", "-purpose", "sslclient", "-CAfile", ca, str(made[0]))
    assert run_command("auth", "certificate", str(folder), "alice@example.com")[0] == 2


@pytest.mark.parametrize("name", ["ca", "server", "x-key", "../x", ".x", "a b", "anonymous", ""])
def test_names_that_nobody_may_have_get_no_certificate(folder: Path, name: str) -> None:
    code, _, err = run_command("auth", "certificate", str(folder), name)

    assert code == 2
    assert err
    assert names_in(folder) == list(FILES)


def test_a_certificate_wants_an_authority(tmp_path: Path) -> None:
    code, _, err = run_command("auth", "certificate", str(tmp_path), "alice")

    assert code == 2
    assert "tms auth init" in err


@pytest.fixture
def guard(server: ServerProcess) -> Iterator[Guard]:
    with guarding(server.port) as guard:
        guard.accepted = {"Bearer CANARY"}
        yield guard


def test_commands_show_the_token_of_the_environment(
    guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMS_TOKEN", "CANARY")

    assert run_command("topic", "list", "--url", guard.url)[0] == 0
    assert guard.seen == ["Bearer CANARY"]


def test_refused_credentials_are_reported_with_what_to_do(guard: Guard, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("WRONG-CANARY")

    code, out, err = run_command("topic", "list", "--url", guard.url, "--token-file", str(file))

    assert (code, out) == (5, "")
    assert "--token-file" in err
    assert err.count("\n") == 1
    assert "CANARY" not in err


def test_a_token_does_not_go_unencrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMS_TOKEN", "CANARY")

    code, _, err = run_command("topic", "list", "--url", "http://tms.example:1")

    assert code == 4
    assert "http://tms.example:1" in err
    assert "https://" in err
    assert "CANARY" not in err


def test_files_that_cannot_be_used_are_wrong_usage(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    for option in ("--ca", "--token-file"):
        code, _, err = run_command("topic", "list", "--url", "https://localhost:1", option, gone)
        assert code == 2
        assert "cannot be read" in err
        assert "--url" not in err
