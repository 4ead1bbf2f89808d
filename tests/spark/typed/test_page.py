"""docs/schemas.md: its example goes on from the registry to Spark, and prints what it should."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tms
from tests.docs.markdown import blocks, needs_spark
from tests.docs.newcomer import ADDRESS, is_as_told
from tests.servers.server_process import ServerProcess


def test_the_example_goes_on_in_spark(
    spark: SparkSession,
    server: ServerProcess,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    [first, *others] = blocks("docs/schemas.md")
    at = next(number for number, block in enumerate(others) if needs_spark(block))
    names = ("orders", "many")
    with tms.connect(server.url) as client:
        client.topic("many").create()
        known = {"spark": spark}
        exec(first.text.replace("memory:", server.url), known)
        capsys.readouterr()
        program = others[at].text.replace(ADDRESS, server.url.removeprefix("http://"))
        # A relative folder would be in the JVM's.
        exec(program.replace('"archive"', repr(f"{tmp_path}/archive")), known)
        printed = capsys.readouterr().out
        for name in names:
            client.topic(name).delete()
            client.registry.delete(f"{name}-value")

    assert is_as_told(others[at + 1].text, printed), printed
