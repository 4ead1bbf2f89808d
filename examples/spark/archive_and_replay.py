"""Archives a topic to Parquet, and replays it into another.

    pip install 'tms-messaging[spark]'; python examples/spark/archive_and_replay.py

Needs a server (TMS_URL, http://127.0.0.1:11015 unless set). Both may be run again at any time: an
archive goes on where it stopped, and a replay that was done changes nothing.
"""

import os
import tempfile

from pyspark.sql import SparkSession

import tms
from tms.spark.jobs import archive, replay
from tms.spark.jobs.replay import Selection
from tms.spark.session import open_session

URL = os.environ.get("TMS_URL", "http://127.0.0.1:11015")
EVENTS, REPLAYED = "example-events", "example-replayed"


def run(spark: SparkSession, url: str) -> None:
    """Archive three messages, replay them twice, and print what is there."""
    with tms.connect(url) as client, tempfile.TemporaryDirectory() as folder:
        for name in (EVENTS, REPLAYED):
            client.topic(name).create()
        client.topic(EVENTS).publish([b"one", b"two"])
        print(archive(spark, {"url": url, "subscribe": EVENTS}, folder).messages, "archived")
        client.topic(EVENTS).publish(b"three")
        print(archive(spark, {"url": url, "subscribe": EVENTS}, folder).messages, "archived")

        target = {"url": url, "topic": REPLAYED}
        for _ in range(2):
            done = replay(spark, folder, target, Selection((EVENTS,)))
            print(done.messages, "replayed;", "done before" if done.is_duplicate else "new")
        print([message.payload.decode() for message in client.topic(REPLAYED).poll()])
        for name in (EVENTS, REPLAYED):
            client.topic(name).delete()


if __name__ == "__main__":
    run(open_session("archive and replay"), URL)
