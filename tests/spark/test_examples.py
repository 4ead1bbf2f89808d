"""The programs in examples/spark, and the page's first session, do what they say."""

import runpy

import pytest
from pyspark.sql import SparkSession

import tms
from tests.docs.markdown import ROOT
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


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PRINTED))
def test_an_example_prints_what_it_should(
    name: str, spark: SparkSession, server: ServerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example runs in this process, because a Spark of its own would take half a minute."""
    run = runpy.run_path(str(EXAMPLES / name))["run"]
    run(spark, server.url)

    assert capsys.readouterr().out == PRINTED[name]
    with tms.connect(server.url) as client:
        assert [topic for topic in client.topics() if topic.startswith("example-")] == []


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_an_example_that_fails_leaves_nothing_behind(name: str, server: ServerProcess) -> None:
    """So it can be run again."""
    run = runpy.run_path(str(EXAMPLES / name))["run"]
    with pytest.raises(AttributeError, match="'NoneType' object"):
        run(None, server.url)

    with tms.connect(server.url) as client:
        assert [topic for topic in client.topics() if topic.startswith("example-")] == []
