"""The server is killed while it compacts: the newest message of each key survives.

No older message reappears once its tombstone is deleted.
"""

import random
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

import tms
from tests.faults.serving import serve
from tests.scale import scaled
from tests.waiting import WAIT_S_MAX
from tms import Message

KILLS = scaled(6)
WRITES = 4_000
KEYS = 300
TOPIC = "prices"


def write(topic: tms.Topic, newest: dict[bytes, bytes | None], chance: random.Random) -> None:
    """Publish messages and tombstones, and record the newest of each key."""
    written = []
    for number in range(WRITES):
        key = b"key-%03d" % chance.randrange(KEYS)
        newest[key] = None if chance.random() < 0.2 else b"%d" % number
        value = newest[key]
        written.append(tms.tombstone(key) if value is None else Message(value, key=key))
    topic.publish(written)


def found(topic: tms.Topic) -> Mapping[bytes | None, bytes | None]:
    """Return the newest message of each key."""
    return {m.key: None if m.is_tombstone else m.payload for m in topic.poll()}


def compact(url: str, wait_s: float) -> None:
    httpx.post(f"{url}/v1/cleanup?wait={wait_s}", timeout=WAIT_S_MAX).raise_for_status()


@pytest.mark.slow
def test_the_newest_of_each_key_is_there(tmp_path: Path, chance: random.Random) -> None:
    newest: dict[bytes, bytes | None] = {}
    limits = {"cleanup_keys_max": 50}
    for killed in range(KILLS + 1):
        server = serve(tmp_path, "--cleanup-period-s", "3600", limits=limits)
        with server, tms.connect(server.url) as client:
            topic = client.topic(TOPIC)
            if not killed:
                topic.create(cleanup="compact", tombstone_s=0)
            seen = found(topic)
            assert {key: value for key, value in newest.items() if value is not None} == {
                key: value for key, value in seen.items() if value is not None
            }
            if killed == KILLS:
                compact(server.url, 30)
                left = [message.key for message in topic.poll()]
                assert len(left) == len(set(left))
                assert sum(value is None for value in found(topic).values()) <= 1
                continue
            write(topic, newest, chance)
            compact(server.url, chance.uniform(0, 0.1))
            server.kill()
