"""Pages about other tools and filters: their examples print what the pages say."""

from pathlib import Path

import pytest

from tests.docs.markdown import blocks, links
from tests.docs.newcomer import Newcomer, is_as_told

PAGES = pytest.mark.parametrize("page", ["docs/other_tools.md", "docs/filters.md"])


@PAGES
def test_the_examples_print_what_the_page_says(tmp_path: Path, page: str) -> None:
    printed = ""
    with Newcomer(tmp_path) as newcomer:
        newcomer.serve()
        for block in blocks(page):
            if block.kind in ("sh", "python"):
                printed = newcomer.carry_out(block)
            elif block.kind == "text":
                assert is_as_told(block.text, printed), f"{block.place}: it prints\n{printed}"


@PAGES
def test_links_lead_somewhere(page: str) -> None:
    assert [link for link in links(page) if not link.exists()] == []
