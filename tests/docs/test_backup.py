"""docs/backup.md can be carried out, and names only things that exist."""

import re
from pathlib import Path

import pytest

from api.app import OPERATIONS
from tests.cli.conftest import run_command
from tests.docs.markdown import ROOT, blocks, links
from tests.docs.newcomer import Newcomer
from tms.core.errors.catalogue import CATALOGUE

PAGE = "docs/backup.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
COMMANDS = sorted(
    set(re.findall(r"tms (?:backup (?:list|verify|delete|prune)|(?!serve)\w+)(?= )", TEXT))
)


def test_the_page_is_carried_out(tmp_path: Path) -> None:
    with Newcomer(tmp_path) as newcomer:
        printed = [newcomer.carry_out(block) for block in blocks(PAGE) if block.kind == "sh"]
    _, backed_up, restored, moved = printed
    assert "monday is intact" in backed_up
    assert "before the backup" in restored
    assert "Imported 1 message.\nImported 0 messages; 1 were imported before.\n" in moved


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_and_their_options_are_there(command: str) -> None:
    code, out, _ = run_command(*command.split()[1:], "--help")
    lines = [line for line in TEXT.splitlines() if line.lstrip("| `").startswith(command)]

    assert code == 0
    for option in re.findall(r" (--[a-z-]+)", " ".join(lines)):
        assert option in out


def test_requests_and_errors_are_there() -> None:
    paths = {operation.path for operation in OPERATIONS}

    assert set(re.findall(r"/v1/backups[/a-z{}]*", TEXT)) <= paths
    for status, code in re.findall(r"(\d{3}) `(\w+)`", TEXT):
        assert CATALOGUE[code].status == int(status)
    assert [link for link in links(PAGE) if not link.exists()] == []
