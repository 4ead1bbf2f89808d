"""The example of docs/coordination.md prints what the page says, and its files are there."""

import subprocess
import sys

from tests.docs.markdown import ROOT, blocks, links

PAGE = "docs/coordination.md"
EXAMPLE_S_MAX = 60.0


def test_the_example_prints_what_the_page_says() -> None:
    example, printed = blocks(PAGE)
    assert (example.kind, printed.kind) == ("python", "text")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example.text],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=EXAMPLE_S_MAX,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, printed.text, "")


def test_links_lead_somewhere() -> None:
    assert [link for link in links(PAGE) if not link.exists()] == []
