"""docs/other_tools.md: its examples print what the page says."""

from pathlib import Path

from tests.docs.markdown import blocks, links
from tests.docs.newcomer import Newcomer, is_as_told

PAGE = "docs/other_tools.md"


def test_the_examples_print_what_the_page_says(tmp_path: Path) -> None:
    printed = ""
    with Newcomer(tmp_path) as newcomer:
        newcomer.serve()
        for block in blocks(PAGE):
            if block.kind == "sh":
                printed = newcomer.carry_out(block)
            elif block.kind == "text":
                assert is_as_told(block.text, printed), f"{block.place}: it prints\n{printed}"


def test_links_lead_somewhere() -> None:
    assert [link for link in links(PAGE) if not link.exists()] == []
