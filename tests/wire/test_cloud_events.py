"""CloudEvents converted to messages and back."""

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tms.core.errors import InvalidRequest
from tms.core.values.message import Message, MessageId
from tms.core.values.topic import TopicId
from tms.wire.cloud_events import encode_event, message_of, message_of_json, source_of

ID = MessageId(1_785_585_600_123, 7).encode()
SOURCE = source_of(TopicId("default", "orders"))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
EXTENSIONS = st.dictionaries(
    st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=10).filter(
        lambda name: name not in ("data", "datacontenttype", "tmsid", "specversion", "partitionkey")
    ),
    TEXT,
    max_size=3,
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


def event(**more: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": "1", "source": "/a", "type": "t", **more}


def one_message(given: dict[str, Any]) -> Message:
    return message_of_json(json.dumps(given).encode(), key=None)


def back(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encode_event(message._replace(id=ID), SOURCE))
    assert found.pop("tmsid") == ID.hex()
    return found


@given(EXTENSIONS, JSON_VALUES)
def test_an_event_with_json_comes_back(extensions: dict[str, str], data: Any) -> None:
    sent = event(**extensions) | {"datacontenttype": "application/json", "data": data}
    message = one_message(sent)
    assert json.loads(message.payload) == data
    assert back(message) == sent


@given(TEXT)
def test_an_event_with_text_comes_back(data: str) -> None:
    sent = event(datacontenttype="text/plain", data=data)
    message = one_message(sent)
    assert message.payload == data.encode()
    assert back(message) == sent


@given(st.binary(min_size=1, max_size=40))
def test_bytes_of_any_kind_come_back(data: bytes) -> None:
    message = message_of(
        {"id": "1", "source": "/", "specversion": "1.0", "type": "t"}, data, None, None
    )
    found = back(message)
    again = one_message(found)
    assert again.payload == data
    assert again.headers["ce_id"] == b"1"


def test_attributes_become_headers_as_in_kafka() -> None:
    message = one_message(event(partitionkey="k", count=3, flag=True, nothing=None, data={"a": 1}))
    assert message.key == b"k"
    assert message.payload == b'{"a": 1}'
    assert message.headers == {
        "ce_specversion": b"1.0",
        "ce_id": b"1",
        "ce_source": b"/a",
        "ce_type": b"t",
        "ce_partitionkey": b"k",
        "ce_count": b"3",
        "ce_flag": b"true",
        "content-type": b"application/json",
    }


def test_a_message_that_was_no_event_is_one() -> None:
    found = back(Message(b"\xff", b"k", {"trace": b"7"}))
    assert found == {
        "specversion": "1.0",
        "id": ID.hex(),
        "source": "/v1/namespaces/default/topics/orders",
        "type": "tms.message",
        "time": "2026-08-01T12:00:00.123Z",
        "partitionkey": "k",
        "data_base64": "/w==",
    }
    assert "data" not in back(Message(b"", b"k", is_tombstone=True))


def test_a_payload_that_is_not_the_json_it_says_is_base64() -> None:
    message = Message(b"{", None, {"content-type": b"application/json"})
    assert back(message)["data_base64"] == "ew=="


@pytest.mark.parametrize(
    "given",
    [
        {},
        event(id=""),
        event(specversion="0.3"),
        event(source=None),
        event(id=25),
        event(subject=7),
        event(subject=""),
        event(dataschema=""),
        event(datacontenttype=""),
        event(datacontenttype="text"),
        event(time="noon"),
        event(time=1522949460),
        *(event(time=f"2018-04-05T17:31{rest}") for rest in ("Z", ":00", ":00+05", ":00+25:00")),
        event(Upper="a"),
        event(nested={"a": 1}),
        event(fraction=1.5),
        event(data=1, data_base64="YQ=="),
        event(data_base64="?"),
        event(data_base64=1),
        [event()],
        "event",
    ],
)
def test_wrong_events_are_refused(given: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        message_of_json(json.dumps(given).encode(), key=None)
    assert refused.value.code == "invalid_body"


@pytest.mark.parametrize("rest", ["Z", "z", ".000000001Z", "+01:00", "-23:59"])
def test_times_of_any_zone_and_fraction_stay_as_they_are(rest: str) -> None:
    sent = event(time=f"2018-04-05T17:31:00{rest}", subject=None, dataschema=None)
    message = one_message(sent)
    assert message.headers["ce_time"].decode() == sent["time"]
    assert set(message.headers) == {f"ce_{name}" for name in (*event(), "time")}
