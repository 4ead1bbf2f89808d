"""How Spark finds the source, and what importing it costs programs that do not use it."""

import subprocess
import sys

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from tests.servers.server_process import ROOT, environment
from tms.core.errors import InvalidRequest
from tms.spark.columns import DEFAULT_SCHEMA, arrow_schema
from tms.spark.source import TmsDataSource, check_version


@pytest.mark.parametrize("version", ["3.5.1", "4.0.1", "4.1.0.dev2"])
def test_an_older_pyspark_is_told_what_is_needed(version: str) -> None:
    with pytest.raises(ImportError, match=r"needs PySpark 4\.2 or newer, and this is"):
        check_version(version)


@pytest.mark.parametrize("version", ["4.2.0", "4.3.0", "5.0.0rc1"])
def test_a_newer_one_is_taken(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize(
    ("imported", "not_loaded"),
    [
        ("tms, tms.aio, tms.client, tms.cli.main, tms.spark", "pyspark"),
        ("tms, tms.aio, tms.client, tms.cli.main, tms.spark", "pyarrow"),
        ("pyspark_tms", "httpx"),
        ("pyspark_tms", "tms.spark.reader"),
    ],
)
def test_importing_loads_no_more_than_it_needs(imported: str, not_loaded: str) -> None:
    code = f"import {imported}, sys; print({not_loaded!r} in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={name: value for name, value in environment().items() if name != "PYTHONWARNINGS"},
    )

    assert done.stdout == "False\n"


def test_a_schema_may_have_fewer_columns_and_no_others() -> None:
    fewer = StructType([StructField("topic", StringType())])

    assert arrow_schema(fewer).names == ["topic"]
    assert arrow_schema(DEFAULT_SCHEMA).names == DEFAULT_SCHEMA.fieldNames()
    for wrong in (StructField("key", StringType()), StructField("topic", IntegerType())):
        with pytest.raises(InvalidRequest, match="option=schema"):
            arrow_schema(StructType([wrong]))


READ = {"url": "http://localhost:1", "subscribe": "a,b"}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "url"),
        ({"url": READ["url"]}, "subscribe"),
        ({**READ, "startingOffset": "earliest"}, "startingOffset"),
        ({**READ, "startingOffsets": "x"}, "startingOffsets"),
        ({**READ, "endingTimestamp": "x"}, "endingTimestamp"),
        ({**READ, "maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger"),
        ({**READ, "damaged": "give"}, "damaged"),
        # Spark passes these when it creates a table, and when it reads it.
        ({**READ, "option.url": READ["url"], "owner": "me"}, "CREATE TABLE"),
    ],
)
def test_wrong_options_are_told_when_a_reader_is_loaded(
    options: dict[str, str], named: str
) -> None:
    """Options of batches and streams are checked when Spark asks for the columns."""
    with pytest.raises(InvalidRequest) as caught:
        TmsDataSource(options).schema()

    assert caught.value.detail["option"].lower() == named.lower()
    assert "VIEW" in str(caught.value) or named not in ("url", "CREATE TABLE")


def test_what_is_wrong_with_a_stream_is_told_when_it_is_used() -> None:
    """PySpark hides errors of the reader's constructor behind an `UnboundLocalError`."""
    source = TmsDataSource({**READ, "endingOffsets": "latest"})
    reader = source.streamReader(source.schema())
    with pytest.raises(InvalidRequest, match="a stream has no end"):
        reader.initialOffset()
    with pytest.raises(InvalidRequest, match="a stream has no end"):
        reader.latestOffset({}, ReadAllAvailable())


def test_the_description_names_the_topics() -> None:
    comments = [each.metadata.get("comment") for each in TmsDataSource(READ).schema()]

    assert comments == ["of a, b", *[None] * 6]
    by_pattern = TmsDataSource({"url": READ["url"], "subscribePattern": "x.*"}).schema()
    assert by_pattern["topic"].metadata == {"comment": "of x.*"}


def test_a_batch_is_never_overwritten() -> None:
    source = TmsDataSource({"url": "http://localhost:1", "topic": "t"})

    with pytest.raises(InvalidRequest, match="never overwritten"):
        source.writer(StructType([StructField("value", StringType())]), overwrite=True)
