"""docs/howto: one page a task; each is carried out, and prints what it says."""

from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, blocks, links
from tests.docs.newcomer import Newcomer, is_as_told

FOLDER = "docs/howto"
PAGES = sorted(f"{FOLDER}/{path.name}" for path in (ROOT / FOLDER).iterdir())


@pytest.mark.parametrize("page", PAGES)
def test_the_page_prints_what_it_says(page: str, tmp_path: Path) -> None:
    printed = ""
    with Newcomer(tmp_path) as newcomer:
        if "tms serve" not in (ROOT / page).read_text(encoding="utf-8"):
            newcomer.serve()
        for block in blocks(page):
            if block.kind != "text":
                printed = newcomer.carry_out(block)
                continue
            assert is_as_told(block.text, printed), f"{block.place}: it prints\n{printed}"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    assert [link for link in links(page) if not link.exists()] == []
