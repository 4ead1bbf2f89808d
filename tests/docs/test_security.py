"""docs/security.md: its first five minutes are carried out, and the things that it names exist."""

import os
import re
import shlex
import socket
from itertools import takewhile
from pathlib import Path

import pytest

from tests.cli.conftest import run_command
from tests.docs.markdown import ROOT, blocks, links
from tests.servers.server_process import ServerProcess
from tms.core.errors.catalogue import CATALOGUE
from tms.security.resources import Action
from tms.settings import Settings

PAGE = "docs/security.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
SHELL = [block.text for block in blocks(PAGE) if block.kind == "sh"]


def run(commands: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Carry out a page's commands, without a process for each."""
    said = ""
    for line in commands.splitlines():
        command, _, file = line.partition(" > ")
        words = shlex.split(command)
        if words[0] == "export":
            for name, _, value in (word.partition("=") for word in words[1:]):
                monkeypatch.setenv(name, value)
            continue
        variables = list(takewhile(lambda word: word != "tms", words))
        with monkeypatch.context() as of_command:
            for name, _, value in (word.partition("=") for word in variables):
                of_command.setenv(name, value)
            code, out, err = run_command(*words[len(variables) + 1 :])
        assert code == 0, (line, err)
        if file:
            Path(file).write_text(out)
        said += err if file else out + err
    return said


def test_the_first_five_minutes_go_as_documented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("TMS_")]:
        monkeypatch.delenv(name)
    init, first, later = SHELL
    own = tmp_path / "etc"

    def here(commands: str) -> str:
        return commands.replace("/etc/tms", str(own))

    name = socket.gethostname()
    made, _, serve = here(init).replace("tms.example.com", name).partition("\n")
    run(made, monkeypatch)
    assert serve.strip() == f"tms serve --config {own}/tms.toml"
    with ServerProcess("memory:", "--config", str(own / "tms.toml")) as server:

        def there(commands: str) -> str:
            return here(commands).replace("https://localhost:11015", server.url)

        told = run(there(first), monkeypatch)
        assert "Published 1 message." in told
        setting = there(first).splitlines()[0]
        rule = re.search(r"Rule (\w+):", told)
        assert rule is not None
        told = run(f"{setting}\n{later.replace('revoke ID', f'revoke {rule[1]}')}", monkeypatch)
        assert "by rule" in told
        assert "admin, by token" in told


def test_a_server_that_others_reach_needs_more_than_courage() -> None:
    code, _, err = run_command("serve", "--listen", "0.0.0.0:0", "--store", "memory:")
    assert (code, "--insecure-no-auth" in err) == (1, True)
    code, _, err = run_command(
        "serve", "--listen", "0.0.0.0:0", "--store", "memory:", "--auth", "required"
    )
    assert (code, "--allow-plaintext" in err) == (1, True)


def test_settings_errors_and_actions_are_there() -> None:
    named = set(re.findall(r"`(\w+)`", TEXT))
    security = {
        name
        for name in Settings.model_fields
        if name.startswith(("auth", "tls_", "audit_", "principal_", "superusers"))
    }
    assert security - named == {"auth_open_docs"}, "`tms config` says enough of it"
    for status, code in re.findall(r"^\| (\d{3}) \| `(\w+)` \|", TEXT, re.MULTILINE):
        assert CATALOGUE[code].status == int(status)
    shown = set(re.findall(r"`([a-z-]+)`", TEXT))
    assert {action.value for action in Action} <= shown


@pytest.mark.parametrize("command", sorted(set(re.findall(r"tms auth (\w+)", TEXT))))
def test_commands_are_there(command: str) -> None:
    assert run_command("auth", command, "--help")[0] == 0


def test_links_lead_somewhere() -> None:
    assert [link for link in links(PAGE) if not link.exists()] == []
