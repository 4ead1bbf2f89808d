"""Bodies of a publish to several topics, in Avro and in JSON."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.avro_library import read, written
from tms.core.errors import InvalidRequest, TooLarge
from tms.core.services.commits import NOTHING
from tms.core.services.messaging import AllPublished
from tms.wire.avro_bodies import AVRO, PUBLISH_ALL_SCHEMA, PUBLISHED_ALL_SCHEMA
from tms.wire.avro_frames import AVRO_FRAMES
from tms.wire.bodies import MESSAGES_A_STEP, PublishAllRequest, last_of
from tms.wire.json_bodies import JSON

MANY = 1000
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.from_regex(r"[A-Za-z0-9_]{1,9}", fullmatch=True)
PUBLISHES = st.builds(
    PublishAllRequest,
    st.dictionaries(NAMES, st.lists(st.binary(max_size=70), max_size=3), max_size=3),
    st.none() | st.text(max_size=20),
    st.none() | INT64,
    st.just(NOTHING),
)


def json_body(**fields: object) -> bytes:
    return json.dumps(fields).encode()


@given(PUBLISHES)
def test_a_publish_to_several_topics_survives(request: PublishAllRequest) -> None:
    body = AVRO.encode_publish_all(request)
    told = [{"topic": name, "messages": messages} for name, messages in request.topics.items()]
    in_base64 = {
        name: [{"base64": base64.b64encode(message).decode()} for message in messages]
        for name, messages in request.topics.items()
    }

    assert last_of(AVRO.publish_all_steps(body, MANY)) == request
    assert body == written(PUBLISH_ALL_SCHEMA, {**request._asdict(), "topics": told})
    in_json = json_body(topics=in_base64, owner=request.owner, sequence=request.sequence)
    assert last_of(JSON.publish_all_steps(in_json, MANY)) == request


@given(st.builds(AllPublished, INT64, st.booleans()))
def test_the_answer_to_it_survives(published: AllPublished) -> None:
    answer = AVRO.encode_published_all(published)
    told = {"transaction_id": published.write_pointer, "duplicate": published.is_duplicate}
    as_text = {**told, "transaction_id": str(published.write_pointer)}

    assert AVRO.decode_published_all(answer) == published
    assert read(PUBLISHED_ALL_SCHEMA, answer) == told
    assert json.loads(JSON.encode_published_all(published)) == as_text


def test_messages_of_all_topics_together_are_capped() -> None:
    request = PublishAllRequest({"a": [b"1", b"2"], "b": [b"3"]})
    told = json_body(topics={"a": ["1", "2"], "b": ["3"]})
    for steps, body in (
        (AVRO.publish_all_steps, AVRO.encode_publish_all(request)),
        (JSON.publish_all_steps, told),
    ):
        assert last_of(steps(body, 3)) == request
        with pytest.raises(TooLarge):
            last_of(steps(body, 2))


def test_messages_are_counted_before_they_are_decoded() -> None:
    """A body of many small messages would take seconds, and a hundred times its size."""
    wrong = "[" + ",".join(["1"] * 11) + "]"
    for steps, body in (
        (JSON.publish_steps, f'{{"messages": {wrong}}}'),
        (JSON.publish_all_steps, f'{{"topics": {{"a": ["x"], "b": {wrong}}}}}'),
    ):
        with pytest.raises(TooLarge):
            last_of(steps(body.encode(), 10))
        with pytest.raises(InvalidRequest):
            last_of(steps(body.encode(), 12))


def test_many_messages_are_decoded_in_steps() -> None:
    many = ["x"] * 3 * MESSAGES_A_STEP
    frames = AVRO_FRAMES.encode_publish_all(PublishAllRequest({"a": [b"x"] * len(many)}))
    assert len(list(JSON.publish_all_steps(json_body(topics={"a": many}), MANY * 100))) == 4
    assert len(list(AVRO_FRAMES.publish_all_steps(frames, MANY * 100))) == 3


def test_a_topic_that_stands_twice_is_refused() -> None:
    """Otherwise the messages of one of the two would be lost."""
    once = AVRO.encode_publish_all(PublishAllRequest({"a": [b"1"]}))
    twice = b"\x04" + once[1:-3] + once[1:]

    with pytest.raises(InvalidRequest, match="twice"):
        last_of(AVRO.publish_all_steps(twice, MANY))
