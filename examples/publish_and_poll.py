"""Publish some messages, read them all, then read only the ones published after that.

Start a server with scripts/run, then: python examples/publish_and_poll.py
"""

import os
import uuid

import tms

URL = os.environ.get("TMS_URL", "http://127.0.0.1:11015")


def main() -> None:
    """Run the example on a topic of its own, and delete it."""
    with tms.connect(URL) as client:
        topic = client.topic(f"example-{uuid.uuid4().hex}")
        topic.create(ttl=3600)
        try:
            topic.publish(b"one alone")
            topic.publish([b"two that are published", b"both or none"])
            last_id = b""
            for message in topic.poll():
                print(message.payload.decode())
                last_id = message.id

            topic.publish(b"and one more")
            for message in topic.poll(after=last_id):
                print("after those:", message.payload.decode())
        finally:
            topic.delete()


if __name__ == "__main__":
    main()
