"""docs/namespaces.md names only things that exist."""

import re

import pytest

from tests.cli.conftest import run_command
from tests.docs.markdown import ROOT, blocks, links
from tms.core.errors.catalogue import CATALOGUE
from tms.core.values.namespaces import NamespaceSettings
from tms.wire.json_namespaces import decode_settings

PAGE = "docs/namespaces.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")


def test_the_body_is_one_that_is_taken() -> None:
    [body] = [block.text for block in blocks(PAGE) if block.kind == "json"]

    assert decode_settings(body.encode()).publish_messages_per_s == 500


def test_settings_and_errors_are_there_all_of_them() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*?(?:(\d{3}) `(\w+)`)? \|$", TEXT, re.MULTILINE)

    assert [name for name, _, _ in rows] == list(NamespaceSettings.__slots__)
    for status, code in re.findall(r"(\d{3}) `(\w+)`", TEXT):
        assert CATALOGUE[code].status == int(status)


@pytest.mark.parametrize("command", sorted(set(re.findall(r"^tms (\w+ \w+)", TEXT, re.MULTILINE))))
def test_commands_and_their_options_are_there(command: str) -> None:
    code, out, _ = run_command(*command.split(), "--help")
    lines = [line for line in TEXT.splitlines() if line.startswith(f"tms {command}")]

    assert code == 0
    for option in re.findall(r" (--[a-z-]+)", " ".join(lines)):
        assert option in out


def test_links_lead_somewhere() -> None:
    assert [link for link in links(PAGE) if not link.exists()] == []
