"""Requests with simple heads, for the tests of heads that the server has cached."""

from tests.api.rest import AVRO_TYPE, TOPIC, TOPICS, avro_publish

PUBLISH = f"{TOPIC}/publish"
ONE = avro_publish(b"x" * 100)


def request(path: str, body: bytes, more: bytes = b"") -> bytes:
    head = (
        b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-type: %s\r\n%scontent-length: %d\r\n\r\n"
    )
    return head % (path.encode(), AVRO_TYPE.encode(), more, len(body)) + body


KNOWN = request(PUBLISH, ONE)
UNFOUND = f"{TOPICS}/none/publish"
HEAD_BYTES = len(KNOWN) - len(ONE)
