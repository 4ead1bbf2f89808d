"""How Spark finds the source, and what importing costs those who do not use it."""

import subprocess
import sys

import pytest
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


def test_a_batch_is_never_overwritten() -> None:
    source = TmsDataSource({"url": "http://localhost:1", "topic": "t"})

    with pytest.raises(InvalidRequest, match="never overwritten"):
        source.writer(StructType([StructField("value", StringType())]), overwrite=True)
