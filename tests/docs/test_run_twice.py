"""A page's examples can be run a second time, because a reader tries them more than once."""

from pathlib import Path

import pytest

from tests.docs.markdown import blocks, needs_spark
from tests.docs.newcomer import Newcomer

PAGES = (
    *("README.md", "docs/coordination.md", "docs/filters.md", "docs/messages.md"),
    *(
        "docs/namespaces.md",
        "docs/other_tools.md",
        "docs/positions.md",
        "docs/registry.md",
        "docs/schemas.md",
        "docs/session.md",
    ),
    *("docs/spark.md", "docs/transactions.md"),
    *("docs/howto/outbox.md", "docs/howto/worker.md", "docs/howto/stopped_reader.md"),
)
"""Those with examples that need one server of this machine. docs/groups.md is run twice by its own
test."""
SERVES = ("scripts/run", "tms serve")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_carried_out_twice(page: str, tmp_path: Path) -> None:
    examples = [
        block for block in blocks(page) if block.kind in ("python", "sh") and not needs_spark(block)
    ]
    assert examples
    with Newcomer(tmp_path) as newcomer:
        newcomer.serve()
        for block in examples * 2:
            if not (newcomer.is_served and block.text.startswith(SERVES)):
                newcomer.carry_out(block)
