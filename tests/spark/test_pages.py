"""README and every page of docs, carried out in README's order on one server.

A newcomer does so: each page uses topics of its own, and prints the output that it shows. Pages
whose server is another one (HBase, a cluster, TLS with users) have tests of their own in
tests/docs.
"""

import re
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.docs.markdown import ROOT, Block, blocks, needs_spark
from tests.docs.newcomer import ADDRESS, Newcomer, is_as_told

pytestmark = pytest.mark.slow

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ["README.md", *dict.fromkeys(re.findall(r"\]\((docs/\w+\.md)\)", README))]
ELSEWHERE = {
    "docs/backup.md": "a server with a folder of backups: test_backup.py",
    "docs/cluster.md": "servers on HBase: test_cluster.py",
    "docs/decisions.md": "twenty minutes of random work: tests/simulation",
    "docs/formats.md": "calls of the code: test_formats.py",
    "docs/groups.md": "two terminals, and numbers that it tells: test_groups.py",
    "docs/hbase.md": "HBase: tests/tables/hbase",
    "docs/security.md": "a server with TLS and users: test_security.py",
}
SERVES = ("scripts/run", "tms serve")
"""A block that starts a server begins with one of these. Only the first such block is run."""


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    with Newcomer(tmp_path_factory.mktemp("newcomer")) as newcomer:
        yield newcomer


def test_every_page_is_in_readme_and_is_carried_out_here_or_elsewhere() -> None:
    there = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}

    assert there == {page for page in PAGES if page.startswith("docs/")}
    assert ELSEWHERE.keys() <= there


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE])
def test_a_page_goes_as_documented(
    page: str,
    newcomer: Newcomer,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the order of README: each page continues on the server as the previous one left it."""
    printed = ""
    for block in blocks(page):
        if block.kind == "text":
            if printed:  # otherwise it is a drawing
                assert is_as_told(block.text, printed), f"{block.place}: it prints\n{printed}"
            printed = ""
        elif needs_spark(block):
            printed = in_spark(block, newcomer, spark, capsys)
        elif block.kind in ("python", "sh"):
            printed = carry_out(block, newcomer)


def carry_out(block: Block, newcomer: Newcomer) -> str:
    """Run a block; start a server if none runs."""
    if block.text.startswith(SERVES) and newcomer.is_served:
        return ""
    return newcomer.carry_out(block)


def in_spark(
    block: Block, newcomer: Newcomer, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> str:
    """Run a program in this process, which has a Spark session; return what it prints."""
    capsys.readouterr()
    text = block.text.replace(ADDRESS, newcomer.url.removeprefix("http://"))
    # A relative folder would be one of the JVM's.
    text = re.sub(r'"(archive|checkpoint|split-clicks)"', rf'"{newcomer.folder}/\1"', text)
    exec(compile(text, block.place, "exec"), {"spark": spark})
    return capsys.readouterr().out
