"""The programs in examples/spark, and the page's first session, do what they say."""

import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tms
from tests.docs.markdown import ROOT, blocks
from tests.docs.newcomer import ADDRESS
from tests.servers.server_process import ServerProcess

EXAMPLES = ROOT / "examples" / "spark"
PRINTED = {
    "word_count.py": "be 2\nnot 1\nor 1\nto 2\n",
    "join.py": '{"order":2,"item":"jam","cents":340}\n',
    "archive_and_replay.py": (
        "2 archived\n1 archived\n3 replayed; new\n0 replayed; done before\n"
        "['one', 'two', 'three']\n"
    ),
}


def test_every_example_is_run_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PRINTED)


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_an_example_prints_what_it_should(
    name: str, spark: SparkSession, server: ServerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, for a Spark of its own would take half a minute."""
    run = runpy.run_path(str(EXAMPLES / name))["run"]
    run(spark, server.url)

    assert capsys.readouterr().out == PRINTED[name]
    with tms.connect(server.url) as client:
        assert [topic for topic in client.topics() if topic.startswith("example-")] == []


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_an_example_that_fails_leaves_nothing_behind(name: str, server: ServerProcess) -> None:
    """So that it can be run again."""
    run = runpy.run_path(str(EXAMPLES / name))["run"]
    with pytest.raises(AttributeError, match="'NoneType' object"):
        run(None, server.url)

    with tms.connect(server.url) as client:
        assert [topic for topic in client.topics() if topic.startswith("example-")] == []


def test_the_first_session_of_the_page(
    spark: SparkSession,
    server: ServerProcess,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    programs = [block for block in blocks("docs/spark.md") if block.kind == "python"]
    with tms.connect(server.url) as client:
        client.topic("orders").create()
        client.topic("orders").publish([b"one", b"two", b"three"])
        client.topic("copies").create()
        known = {"spark": spark}
        for block in programs:
            program = block.text.replace(ADDRESS, server.url.removeprefix("http://"))
            # A relative folder would be in the JVM's, which is the first test's of all.
            for folder in ("checkpoint", "split-orders"):
                program = program.replace(f'"{folder}"', repr(f"{tmp_path}/{folder}"))
            exec(program, known)
        copies, every, long = (
            [message.payload for message in client.topic(name).poll()]
            for name in ("copies", "every-order", "long-orders")
        )
        for name in ("orders", "copies", "every-order", "long-orders"):
            client.topic(name).delete()
        client.registry.delete("orders-value")

    printed = capsys.readouterr().out
    assert "|orders|" in printed
    assert "|  a|    1|" in printed
    assert copies == every == [b"one", b"two", b"three"]
    assert long == [b"three"]
