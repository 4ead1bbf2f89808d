"""README's session is carried out from its first line to its last, against a real server."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, blocks, links
from tests.docs.newcomer import Newcomer, is_as_told
from tms.settings import Settings

PAGES = (
    "README.md",
    "docs/ARCHITECTURE.md",
    "docs/formats.md",
    "docs/transactions.md",
    "CHANGELOG.md",
)


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    with Newcomer(tmp_path) as newcomer:
        yield newcomer


@pytest.mark.slow
def test_the_session_goes_as_told(newcomer: Newcomer) -> None:
    printed = ""
    for block in blocks("README.md"):
        if block.kind == "text":
            assert is_as_told(block.text, printed), f"{block.place}: it prints\n{printed}"
        else:
            printed = newcomer.carry_out(block)


def test_defaults_are_those_of_the_settings() -> None:
    whole = (ROOT / "README.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(\w+)` \| ([0-9.]+) \|", whole, re.MULTILINE))

    assert len(told) > 1
    assert told == {name: str(Settings.model_fields[name].default) for name in told}


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_are_there(page: str) -> None:
    whole = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`(\w+/[\w/]+\.py)`", whole)

    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_every_promise_has_a_test() -> None:
    whole = (ROOT / "README.md").read_text(encoding="utf-8")
    _, _, promises = whole.partition("| promise | test |\n| --- | --- |\n")
    rows = promises.partition("\n\n")[0].splitlines()

    assert rows
    assert [row for row in rows if not re.search(r"`tests/\S+\.py` \|$", row)] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    assert [target for target in links(page) if not target.exists()] == []


def test_what_is_told_is_compared_line_by_line() -> None:
    assert is_as_told("a … c\nd", "a b c\nd\n")
    assert not is_as_told("a … c\nd", "a b c\nx\nd\n")
    assert not is_as_told("a …", "b c")
