"""Events of CloudEvents' own SDK, published in each mode, and read back by it."""

import json
from typing import Any

import pytest
from cloudevents.core.bindings.http import (
    HTTPMessage,
    from_http_event,
    to_binary_event,
    to_structured_event,
)
from cloudevents.core.v1.event import CloudEvent

from tests.api.rest import TOPIC, Rest

pytestmark = pytest.mark.anyio

NAMED = {"id": "17", "source": "/shop", "type": "shop.order", "specversion": "1.0"}
EVENTS = [
    CloudEvent({**NAMED, "datacontenttype": "application/json"}, {"order": [17, "ü"]}),
    CloudEvent({**NAMED, "datacontenttype": "text/plain", "subject": "a b%c€"}, "some text"),
    CloudEvent({**NAMED, "datacontenttype": "image/png", "partitionkey": "k"}, b"\x89PNG\xff"),
    CloudEvent({**NAMED, "traceparent": "00-1"}, None),
]


def plain(event: Any) -> tuple[dict[str, Any], Any]:
    """Return the attributes that the publisher gave, and the data."""
    attributes = {name: value for name, value in event.get_attributes().items() if name != "tmsid"}
    attributes.pop("time", None)  # the SDK adds one
    return attributes, event.get_data()


@pytest.mark.parametrize("in_mode", [to_binary_event, to_structured_event])
async def test_events_of_the_sdk_come_back(own: Rest, in_mode: Any) -> None:
    await own.create()
    for event in EVENTS:
        sent = in_mode(event)
        answer = await own.http.post(
            f"{TOPIC}/messages", content=sent.body, headers=dict(sent.headers)
        )
        assert answer.status_code == 200, answer.text
    accept = {"accept": "application/cloudevents-batch+json"}
    answer = await own.http.post(f"{TOPIC}/poll", json={}, headers=accept)
    kind = {"content-type": "application/cloudevents+json"}
    polled = [
        from_http_event(HTTPMessage(kind, json.dumps(each).encode())) for each in answer.json()
    ]
    assert [plain(event) for event in polled] == [plain(event) for event in EVENTS]
