"""Publish the deliveries of a webhook that are signed with the secret, and refuse all others.

GitHub signs a body by HMAC-SHA-256; most senders do the same under another name. A delivery is
durable before it is answered. One that is sent again has the same id in the header `delivery`.

    WEBHOOK_SECRET=… python examples/webhook.py hooks 8000
"""

import hashlib
import hmac
import os
import sys
from collections.abc import Iterable
from wsgiref.simple_server import make_server
from wsgiref.types import StartResponse, WSGIEnvironment

import tms

URL = os.environ.get("TMS_URL", "http://127.0.0.1:11015")
BODY_BYTES_MAX = 25 * 1024 * 1024


def take(topic: tms.Topic, secret: bytes, request: WSGIEnvironment) -> str:
    """Publish a delivery, and return the status of the answer."""
    size = int(request.get("CONTENT_LENGTH") or 0)
    if not 0 < size <= BODY_BYTES_MAX:
        return "413 Content Too Large"
    body = request["wsgi.input"].read(size)
    expected = "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()
    signature = request.get("HTTP_X_HUB_SIGNATURE_256", "")
    if not hmac.compare_digest(expected.encode(), signature.encode("latin-1")):
        return "401 Unauthorized"
    names = {"content-type": "CONTENT_TYPE", "delivery": "HTTP_X_GITHUB_DELIVERY"}
    headers = {name: request.get(field, "").encode("latin-1") for name, field in names.items()}
    try:
        topic.publish(body, headers=headers)
    except (tms.Unavailable, tms.OutcomeUnknown):
        return "503 Service Unavailable"
    return "204 No Content"


def main() -> None:
    """Serve the topic and the port that the arguments name, until Ctrl-C."""
    if len(sys.argv) != 3:
        sys.exit("usage: webhook.py TOPIC PORT")
    secret = os.environ["WEBHOOK_SECRET"].encode()
    with tms.connect(URL) as client:
        topic = client.topic(sys.argv[1])
        topic.create(exist_ok=True)

        def answer(request: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
            start(take(topic, secret, request), [("Content-Length", "0")])
            return []

        with make_server("127.0.0.1", int(sys.argv[2]), answer) as server:
            print(f"serving http://127.0.0.1:{server.server_port}", flush=True)
            server.serve_forever()


if __name__ == "__main__":
    main()
