"""docs/messages.md: its example prints what it says."""

import subprocess
import sys

import pytest

from tests.docs.markdown import ROOT, blocks
from tms.core.limits import Limits

PAGE = "docs/messages.md"
EXAMPLE_S_MAX = 120.0


@pytest.mark.slow
def test_the_example_prints_what_the_page_says() -> None:
    by_kind = {block.kind: block.text for block in blocks(PAGE)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", by_kind["python"]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=EXAMPLE_S_MAX,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, by_kind["text"], "")


def test_the_limits_are_those_of_the_code() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    limits = Limits()

    assert f"{limits.frame_bytes_max // 1024} KiB" in text
    assert f"headers, {limits.message_headers_max}." in text
