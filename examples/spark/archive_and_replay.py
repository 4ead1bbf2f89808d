"""Archives a topic to Parquet, and replays it into another.

    scripts/environment spark; .venv/bin/python examples/spark/archive_and_replay.py

Needs a server (TMS_URL, by default http://127.0.0.1:11015). Both can be repeated at any time: an
archive continues where it stopped, and a replay that is complete changes nothing.
"""

import os
import tempfile
import uuid

from pyspark.sql import SparkSession

import tms
from tms.spark.jobs import archive, replay
from tms.spark.jobs.replay import Selection
from tms.spark.session import open_session

URL = os.environ.get("TMS_URL", "http://127.0.0.1:11015")


def run(spark: SparkSession, url: str) -> None:
    """Archive three messages, replay them twice, and print the result."""
    with tms.connect(url) as client, tempfile.TemporaryDirectory() as folder:
        names = [f"example-{kind}-{uuid.uuid4().hex}" for kind in ("events", "replayed")]
        events, replayed = (client.topic(name) for name in names)
        events.create()
        replayed.create()
        try:
            events.publish([b"one", b"two"])
            source = {"url": url, "subscribe": events.name}
            print(archive(spark, source, folder).messages, "archived")
            events.publish(b"three")
            print(archive(spark, source, folder).messages, "archived")

            target = {"url": url, "topic": replayed.name}
            for _ in range(2):
                done = replay(spark, folder, target, Selection((events.name,)))
                print(done.messages, "replayed;", "done before" if done.is_duplicate else "new")
            print([message.payload.decode() for message in replayed.poll()])
        finally:
            events.delete()
            replayed.delete()


if __name__ == "__main__":
    run(open_session("archive and replay", url=URL), URL)
