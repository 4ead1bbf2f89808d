"""docs/operations.md and docs/upgrading.md: commands, options, settings and metrics exist."""

import re
from pathlib import Path

import pytest

from tests.cli.conftest import run_command
from tests.docs.markdown import ROOT, blocks, links
from tests.docs.newcomer import Newcomer
from tms.settings import Settings

PAGES = ("docs/operations.md", "docs/upgrading.md")
TEXTS = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
COMMANDS = sorted(
    {
        found
        for text in TEXTS.values()
        for found in re.findall(r"^ +tms (\w+ \w+)", text, re.MULTILINE)
    }
)


def test_the_examples_are_carried_out(tmp_path: Path) -> None:
    with Newcomer(tmp_path) as newcomer:
        newcomer.serve()
        for page in PAGES:
            for block in blocks(page):
                newcomer.carry_out(block)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_exist(command: str) -> None:
    assert run_command(*command.split(), "--help")[0] == 0


def test_settings_exist() -> None:
    named = set(re.findall(r"`(\w+_(?:max|bytes|s)(?:_\w+)?)`", TEXTS["docs/operations.md"]))

    assert named
    assert named <= set(Settings.model_fields)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    assert [link for link in links(page) if not link.exists()] == []
