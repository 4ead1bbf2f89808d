"""docs/schemas.md: its session goes as told, and the properties that it names are there."""

import re
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, blocks, links, needs_spark
from tests.docs.newcomer import Newcomer, is_as_told
from tms.core.errors.catalogue import CATALOGUE
from tms.core.topic_properties import check_meaning

PAGE = "docs/schemas.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_session_goes_as_told(tmp_path: Path) -> None:
    printed = ""
    with Newcomer(tmp_path) as newcomer:
        newcomer.serve()
        is_elsewhere = False  # in tests/spark/typed/test_page.py
        for block in blocks(PAGE):
            is_elsewhere = needs_spark(block) or (is_elsewhere and block.kind == "text")
            if is_elsewhere:
                continue
            if block.kind == "text":
                assert is_as_told(block.text, printed), f"{block.place}: it prints\n{printed}"
            else:
                printed = newcomer.carry_out(block)


def test_the_values_that_the_page_names_are_taken() -> None:
    named = {"schema_check": {"off", "id", "full"}, "subject_strategy": {"topic", "record"}}
    for name, values in named.items():
        assert f"`{name}`" in TEXT
        for value in values:
            assert f"`{value}`" in TEXT
            check_meaning({name: value})


def test_the_errors_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`((?:payload|value|schemas)_\w+)`", TEXT))
    assert len(named) >= 4
    assert named <= CATALOGUE.keys()


def test_links_lead_somewhere() -> None:
    assert [link for link in links(PAGE) if not link.exists()] == []
