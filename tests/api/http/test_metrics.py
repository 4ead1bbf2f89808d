"""REST's own metrics: requests by operation and status, bytes, times."""

import pytest

from tests.api.rest import TOPIC, Rest, avro_poll, avro_publish, zipped

pytestmark = pytest.mark.anyio


async def test_requests_are_counted_by_operation_and_status(rest: Rest) -> None:
    await rest.create()
    await rest.http.put(TOPIC)
    await rest.publish(b"a")
    await rest.publish(b"b")
    await rest.post("publish", b"")
    await rest.http.get("/nothing")
    await rest.http.patch(TOPIC)

    def requests(operation: str, status: int) -> float:
        return rest.metric("tms_http_requests_total", operation=operation, status=str(status))

    assert requests("createTopic", 200) == 1
    assert requests("createTopic", 409) == 1
    assert requests("publish", 200) == 2
    assert requests("publish", 400) == 1
    assert requests("unmatched", 404) == 1
    assert requests("unmatched", 405) == 1


async def test_bytes_in_are_as_sent_and_bytes_out_before_compression(rest: Rest) -> None:
    await rest.create()
    body = zipped(avro_publish(b"x" * 10_000))
    await rest.post("publish", body, headers={"content-encoding": "gzip"})
    poll = await rest.post("poll", avro_poll(), headers={"accept-encoding": "gzip"})

    assert rest.metric("tms_http_request_bytes_total", operation="publish") == len(body)
    assert rest.metric("tms_http_response_bytes_total", operation="poll") == len(poll.content)
    assert len(poll.content) > 10_000


async def test_times_are_a_histogram_without_those_who_waited(rest: Rest) -> None:
    await rest.create()
    await rest.publish(b"a")
    await rest.post("poll", {})
    await rest.post("poll", {"startFrom": 2**62}, query="?wait=0.001")

    assert rest.metric("tms_http_request_seconds_count", operation="publish") == 1
    assert rest.metric("tms_http_request_seconds_count", operation="poll") == 1
    assert rest.metric("tms_http_request_seconds_bucket", operation="poll", le="10.0") == 1
    assert 0 < rest.metric("tms_http_request_seconds_sum", operation="publish") < 10


async def test_all_metrics_of_the_registry_are_at_one_path(rest: Rest) -> None:
    await rest.create()
    await rest.publish(b"a")

    answer = await rest.http.get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.text.splitlines()
    assert 'tms_http_requests_total{operation="publish",status="200"} 1.0' in lines
    assert "tms_published_messages_total 1.0" in lines


async def test_topics_namespaces_and_subscriptions_have_their_own(rest: Rest) -> None:
    await rest.create()
    await rest.http.put(f"{TOPIC}/subscriptions/s")
    await rest.publish(b"abc", b"de")
    await rest.post("poll", avro_poll(limit=1))
    rest.clock.advance(3_000)

    lines = (await rest.http.get("/metrics")).text.splitlines()

    topic = 'namespace="ns",topic="t"'
    subscription = 'namespace="ns",subscription="s",topic="t"'
    assert {
        f"tms_topic_published_messages_total{{{topic}}} 2.0",
        f"tms_topic_published_bytes_total{{{topic}}} 5.0",
        f"tms_topic_polled_messages_total{{{topic}}} 1.0",
        'tms_namespace_published_messages_total{namespace="ns"} 2.0',
        'tms_namespace_polled_messages_total{namespace="ns"} 1.0',
        f"tms_subscription_lag_messages{{{subscription}}} 2.0",
        f"tms_subscription_lag_seconds{{{subscription}}} 3.0",
        'tms_topic_published_messages_total{namespace="(other)",topic="(other)"} 0.0',
    } <= set(lines)


async def test_help_texts_are_sentences_that_begin_with_what_is_measured(rest: Rest) -> None:
    lines = (await rest.http.get("/metrics")).text.splitlines()

    texts = [line.split(" ", 3)[3] for line in lines if line.startswith("# HELP tms_")]
    assert len(texts) > 40
    assert [text for text in texts if not text.endswith(".") or len(text) < 15] == []
    assert len(set(texts)) == len(texts)
