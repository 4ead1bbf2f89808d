"""The values of options, and errors that name the option at fault."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.structure.sources import ROOT
from tms.core.errors import InvalidRequest
from tms.core.values.message import first_id_at
from tms.core.values.reading import Isolation
from tms.spark.offsets import Edge, Offset, Since
from tms.spark.options import (
    OPTIONS,
    batch_read,
    batch_write,
    stream_read,
    stream_write,
)

URL = {"url": "http://localhost:11015"}
READ = {**URL, "subscribe": "a,b"}
ID = "0000019a8b7c6d5e000100000000000000000000"


def refusal(parse: object, options: dict[str, str]) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse(options)  # type: ignore[operator]
    return caught.value


def test_a_batch_is_by_default_all_that_is_committed() -> None:
    options = batch_read(READ)

    assert options.topics == ("a", "b")
    assert (options.starting.otherwise, options.ending.otherwise) == (Edge.EARLIEST, Edge.LATEST)
    assert (options.isolation, options.fail_on_data_loss) == (Isolation.COMMITTED, True)


def test_a_stream_is_by_default_what_comes_from_now_on() -> None:
    assert stream_read(READ).starting.otherwise is Edge.LATEST


def test_names_are_the_same_in_upper_and_lower_case() -> None:
    assert batch_read({"URL": "http://h:1", "SUBSCRIBE": "a", "FailOnDataLoss": "FALSE"}) == (
        batch_read({"url": "http://h:1", "subscribe": "a", "failOnDataLoss": "false"})
    )


def test_a_pattern_takes_the_topics_it_matches_as_a_whole() -> None:
    options = batch_read({**URL, "subscribePattern": "ord.*|pay"})

    assert options.chosen(["payments", "pay", "ords", "orders", "x"]) == ["orders", "ords", "pay"]


@pytest.mark.parametrize(
    ("texts", "bound"),
    [
        ({"startingOffsets": "earliest"}, Edge.EARLIEST),
        ({"startingOffsets": '{"b": "latest"}'}, Edge.EARLIEST),
        ({"startingOffsets": f'{{"a": "{ID}"}}'}, Offset(bytes.fromhex(ID))),
        ({"startingOffsets": f'{{"a": "{ID}@3"}}'}, Offset(bytes.fromhex(ID), 3)),
        ({"startingTimestamp": "1000"}, Since(first_id_at(1000))),
        ({"startingTimestamp": "1970-01-01T00:00:01"}, Since(first_id_at(1000))),
        ({"startingTimestamp": "1970-01-01T02:00:01+02:00"}, Since(first_id_at(1000))),
        ({"startingTimestamp": "1970-01-01T00:00:00.999001"}, Since(first_id_at(1000))),
        ({"startingTimestamp": "9999-12-31T23:59:59.999999"}, Since(first_id_at(253402300800000))),
        ({"startingOffsetsByTimestamp": '{"a": 1000}'}, Since(first_id_at(1000))),
    ],
)
def test_where_reading_begins(texts: dict[str, str], bound: object) -> None:
    if "latest" not in str(texts):
        assert batch_read({**READ, **texts}).starting.of("a") == bound
    else:
        assert stream_read({**READ, **texts}).starting.of("b") is Edge.LATEST


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"subscribe": "a"}, "url"),
        ({**URL}, "subscribe"),
        ({**READ, "subscribePattern": "a"}, "subscribe and subscribePattern"),
        ({**READ, "url": "leveldb:x"}, "url"),
        ({**READ, "startingTimestamp": "1", "startingOffsets": "earliest"},
         "startingOffsets and startingTimestamp"),
        ({**READ, "startingOffsets": "latest"}, "startingOffsets"),
        ({**READ, "startingOffsets": '{"a": "nonsense"}'}, "startingOffsets"),
        ({**READ, "startingOffsets": '{"c": "earliest"}'}, "subscribe"),
        ({**READ, "startingOffsets": "{"}, "startingOffsets"),
        ({**READ, "endingOffsets": "earliest"}, "endingOffsets"),
        ({**READ, "endingTimestamp": "yesterday"}, "endingTimestamp"),
        ({**READ, "endingTimestamp": "-5"}, "endingTimestamp"),
        ({**READ, "minPartitions": "0"}, "minPartitions"),
        ({**READ, "minPartitions": "two"}, "minPartitions"),
        ({**READ, "isolation": "dirty"}, "isolation"),
        ({**READ, "filter": "key"}, "filter"),
        ({**READ, "failOnDataLoss": "perhaps"}, "failOnDataLoss"),
        ({**READ, "tms.timeout": "0"}, "tms.timeout"),
        ({**READ, "maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger"),
        ({**READ, "txnAppId": "x"}, "txnAppId"),
        ({**URL, "subscribePattern": "("}, "subscribePattern"),
    ],
)  # fmt: skip
def test_a_batch_read_refuses(options: dict[str, str], named: str) -> None:
    assert refusal(batch_read, options).detail["option"] == named


def test_an_unknown_option_is_refused_with_the_one_that_was_meant() -> None:
    error = refusal(batch_read, {**READ, "startingOffset": "earliest"})

    assert error.detail["option"] == "startingoffset"
    assert "did you mean startingOffsets?" in str(error)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"minOffsetsPerTrigger": "0"}, "minOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "minOffsetsPerTrigger"),
        ({"maxTriggerDelay": "15m"}, "maxTriggerDelay"),
        ({"minOffsetsPerTrigger": "5", "maxTriggerDelay": "soon"}, "maxTriggerDelay"),
        ({"startingOffsetsByTimestampStrategy": "error"}, "startingOffsetsByTimestampStrategy"),
        ({"startingTimestamp": "1", "startingOffsetsByTimestampStrategy": "first"},
         "startingOffsetsByTimestampStrategy"),
    ],
)  # fmt: skip
def test_a_stream_read_refuses(options: dict[str, str], named: str) -> None:
    assert refusal(stream_read, {**READ, **options}).detail["option"] == named


@pytest.mark.parametrize(
    ("text", "delay_s"), [("15m", 900), ("250ms", 0.25), ("2", 2), ("1.5 s", 1.5), ("1h", 3600)]
)
def test_a_delay_is_in_seconds_or_has_a_unit(text: str, delay_s: float) -> None:
    wait = {"minOffsetsPerTrigger": "5", "maxTriggerDelay": text}

    assert stream_read({**READ, **wait}).delay_s == delay_s


def test_a_stream_has_no_end() -> None:
    assert refusal(stream_read, {**READ, "endingOffsets": "latest"}).detail["option"] == (
        "endingOffsets"
    )


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({**URL, "txnVersion": "1"}, "txnVersion"),
        ({**URL, "txnAppId": "a", "txnVersion": "-1"}, "txnVersion"),
        ({**URL, "txnAppId": "a", "transactional": "false"}, "txnAppId and transactional"),
        ({**URL, "subscribe": "a"}, "subscribe"),
        ({**URL, "transactionTimeout": "1.5"}, "transactionTimeout"),
    ],
)
def test_a_write_refuses(options: dict[str, str], named: str) -> None:
    assert refusal(batch_write, options).detail["option"] == named


def test_the_number_of_a_streams_work_is_its_batchs() -> None:
    refused = refusal(stream_write, {**URL, "txnAppId": "a", "txnVersion": "1"})

    assert refused.detail["option"] == "txnVersion"
    assert stream_write({**URL, "txnAppId": "a", "checkpointLocation": "/x"}).owner == "a"


@given(st.dictionaries(st.sampled_from(OPTIONS), st.text(max_size=20)))
def test_any_texts_are_understood_or_refused(texts: dict[str, str]) -> None:
    for parse in (batch_read, stream_read, batch_write, stream_write):
        try:
            parse(texts)
        except InvalidRequest as error:
            assert error.problem.code in {
                "invalid_option",
                "invalid_topic_name",
                "invalid_namespace_name",
                "invalid_owner",
            }


def test_the_page_has_every_option_and_no_other() -> None:
    page = (ROOT / "docs/spark.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `([\w.]+)` \|", page.partition("## Options")[2], re.MULTILINE)

    assert sorted(told) == sorted(OPTIONS)
