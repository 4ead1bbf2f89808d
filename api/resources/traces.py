"""The `traceparent` of a publish (W3C Trace Context) as a header of its messages.

Only topics with the property `trace_header` do this, because a header makes a plain message a
framed one. Messages that have the header keep their own. An invalid value is ignored, as the
standard demands. `avro/binary`, which is CDAP's, has no headers, so nothing of it is in its bodies.
"""

import asyncio
import re
from collections.abc import Sequence
from typing import Final

from api.http.exchange import Exchange
from tms.core.errors import TopicNotFound
from tms.core.values.frame import FramedBody, encode_body, read_frame
from tms.core.values.topic import TopicId
from tms.core.values.topic_properties import ON, TRACE_HEADER
from tms.wire.bodies import MESSAGES_A_STEP

TRACEPARENT: Final = b"traceparent"
_NAME = TRACEPARENT.decode()
_VALID = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


async def traced(
    exchange: Exchange, topic_id: TopicId, payloads: Sequence[bytes]
) -> Sequence[bytes]:
    """Return the messages with the trace of the request, if the topic asks for it; in steps."""
    parent = exchange.headers[TRACEPARENT]
    if not _VALID.fullmatch(parent):
        return payloads
    try:
        topic = await exchange.context.services.messaging.topic(topic_id)
    except TopicNotFound:
        return payloads  # the publish reports it
    if topic.properties.get(TRACE_HEADER) != ON:
        return payloads
    traced_bodies: list[bytes] = []
    for start in range(0, len(payloads), MESSAGES_A_STEP):
        if start:
            await asyncio.sleep(0)
        some = payloads[start : start + MESSAGES_A_STEP]
        traced_bodies += [_with_header(body, parent) for body in some]
    return traced_bodies


def _with_header(body: bytes, parent: bytes) -> bytes:
    key: bytes | None = None
    headers: dict[str, bytes] = {}
    payload: bytes | None = body
    if type(body) is FramedBody:
        frame = read_frame(body)
        if _NAME in frame.headers:
            return body
        key, headers = frame.key, {**frame.headers}
        payload = body[frame.end :] if frame.has_payload else None
    framed, _ = encode_body(payload, key, {**headers, _NAME: parent})
    return FramedBody(framed)
