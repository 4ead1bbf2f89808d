"""README and the first pages are correct. `tests/spark/test_pages.py` runs their examples."""

import re

import pytest

from tests.docs.markdown import ROOT, links
from tests.docs.newcomer import is_as_told
from tms.settings import Settings

PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/ARCHITECTURE.md",
    "docs/changing.md",
    "docs/decisions.md",
    "docs/glossary.md",
    "bench/README.md",
    "docs/formats.md",
    "docs/hbase.md",
    "docs/messages.md",
    "docs/promises.md",
    "docs/session.md",
    "docs/spark.md",
    "docs/transactions.md",
    "CHANGELOG.md",
)
PROMISES = (ROOT / "docs/promises.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINES_MAX = {"README.md": 80, "docs/ARCHITECTURE.md": 140, "bench/README.md": 120}


def test_defaults_are_those_of_the_settings() -> None:
    told = dict(re.findall(r"^\| `(\w+)` \| ([0-9.]+) \|", PROMISES, re.MULTILINE))

    assert len(told) > 1
    assert told == {name: str(Settings.model_fields[name].default) for name in told}


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_are_there(page: str) -> None:
    whole = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`(\w+/[\w/]+\.py)`", whole)

    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_every_promise_has_a_test() -> None:
    _, _, promises = PROMISES.partition("| promise | test |\n| --- | --- |\n")
    rows = promises.partition("\n\n")[0].splitlines()

    assert rows
    assert [row for row in rows if not re.search(r"`tests/\S+\.py` \|$", row)] == []


@pytest.mark.parametrize("page", LINES_MAX)
def test_the_first_pages_are_short(page: str) -> None:
    assert len((ROOT / page).read_text(encoding="utf-8").splitlines()) <= LINES_MAX[page]


def test_the_speed_is_that_of_the_run_that_is_shown() -> None:
    told = re.search(
        r"accepts ([\d,]+) messages a second .* p50 latency of ([\d.]+) ms", README, re.DOTALL
    )
    bench = (ROOT / "bench/README.md").read_text(encoding="utf-8")
    row = re.search(
        r"^\| 1 x 100 B, 32 connections +\| ([\d.]+) k +\|[^|]*\| ([\d.]+) ", bench, re.MULTILINE
    )

    assert told is not None
    assert row is not None
    assert int(told[1].replace(",", "")) == float(row[1]) * 1000
    assert float(told[2]) == round(float(row[2]), 1)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    assert [target for target in links(page) if not target.exists()] == []


def test_output_is_compared_line_by_line() -> None:
    assert is_as_told("a … c\nd", "a b c\nd\n")
    assert not is_as_told("a … c\nd", "a b c\nx\nd\n")
    assert not is_as_told("a …", "b c")
