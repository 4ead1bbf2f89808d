"""Writers race with `if_last` while the server is killed: one order, without a gap or a fork.

Each message names the last one that its writer had seen.
"""

import random
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event

import tms
from tests.faults.serving import serve
from tests.scale import scaled
from tests.waiting import wait_until

ROUNDS = scaled(1000)
KILLS = scaled(5)
WRITERS = 2
TOPIC = "race"


class Race:
    """The server's current URL, and the messages published."""

    def __init__(self) -> None:
        self.url = ""
        self.is_over = Event()
        self.acknowledged: list[bytes] = []
        self.seen = 0
        self.refused = 0
        self.writers: list[Future[None]] = []

    def has_come_to(self, count: int) -> bool:
        """Whether a writer has failed, or `count` publishes are acknowledged after some refusal."""
        has_raced = len(self.acknowledged) >= count and self.refused > 0
        return has_raced or any(writer.done() for writer in self.writers)

    def write(self, number: int) -> None:
        """Keep publishing after the last message, whatever happens to the server."""
        last = b""
        while not self.is_over.is_set():
            try:
                with tms.connect(self.url, retry_for_s=0) as client:
                    last = self._write_to(client.topic(TOPIC), number, last)
            except (tms.Unavailable, tms.OutcomeUnknown):
                self.is_over.wait(0.01)

    def _write_to(self, topic: tms.Topic, number: int, last: bytes) -> bytes:
        while not self.is_over.is_set():
            # Continue reading, since even a publish whose answer was lost may have been done.
            for message in topic.poll(after=last or None):
                last = message.id
                self.seen += 1
            try:
                [published] = topic.publish(
                    b"%d %s" % (number, last.hex().encode()), if_last=last or "empty"
                )
            except tms.TopicMoved:
                self.refused += 1
                continue
            self.acknowledged.append(published)
        return last


def test_racing_writers_make_one_order(tmp_path: Path, chance: random.Random) -> None:
    race = Race()
    with serve(tmp_path) as server:
        race.url = server.url
        with tms.connect(server.url) as client:
            client.topic(TOPIC).create()
    with ThreadPoolExecutor(WRITERS) as pool:
        race.writers = [pool.submit(race.write, number) for number in range(WRITERS)]
        try:
            for killed in range(KILLS + 1):
                with serve(tmp_path) as server:
                    race.url = server.url
                    count = ROUNDS * (killed + 1) // (KILLS + 1)
                    wait_until(partial(race.has_come_to, count), f"{count} messages, and a race")
                    race.is_over.wait(chance.uniform(0, 0.02))
                    if killed < KILLS:
                        server.kill()
                        continue
                    race.is_over.set()
                    for writer in race.writers:
                        writer.result()
                    with tms.connect(server.url) as client:
                        found = list(client.topic(TOPIC).poll())
        finally:
            race.is_over.set()

    assert len(race.acknowledged) >= ROUNDS
    assert {message.id for message in found} >= {*race.acknowledged}
    before = b""
    for message in found:
        _, _, named = message.payload.partition(b" ")
        assert named == before.hex().encode()
        before = message.id
