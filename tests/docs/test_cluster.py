"""docs/cluster.md names settings, commands and errors that exist."""

import re

from tests.cli.conftest import run_command
from tests.docs.markdown import ROOT, blocks, links
from tms.core.errors.catalogue import CATALOGUE
from tms.settings import Settings

PAGE = "docs/cluster.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")


def test_settings_are_there_with_these_defaults() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d+) s \|", TEXT, re.MULTILINE)

    assert rows
    for name, default in rows:
        assert Settings.model_fields[name].default == float(default)
    of_serve = re.sub(r"tms (?:init|cluster)\b[^`\n]*", "", TEXT)
    for flag in re.findall(r" --([a-z]+(?:-[a-z]+)*)", of_serve):
        assert flag.replace("-", "_") in Settings.model_fields


def test_errors_and_commands_are_there() -> None:
    for status, code in re.findall(r"(\d{3})\s+`(\w+)`", TEXT):
        assert CATALOGUE[code].status == int(status)
    for block in [each for each in blocks(PAGE) if each.kind == "sh"]:
        assert run_command(*block.text.split()[1:], "--help")[0] == 0


def test_links_lead_somewhere() -> None:
    assert [link for link in links(PAGE) if not link.exists()] == []
