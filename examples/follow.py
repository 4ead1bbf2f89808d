"""Print a topic's messages as they arrive, and continue where it stopped when it is run again.

It keeps its position itself, in a file. The alternative is a subscription (`topic.subscription`),
which the server keeps, and which moves with a transaction. The position is written after a message
was processed, so after a crash in between, that message is processed again.

    python examples/follow.py orders            in one terminal
    tms publish orders "hello"                  in another
"""

import os
import sys
from pathlib import Path

import tms

URL = os.environ.get("TMS_URL", "http://127.0.0.1:11015")


def follow(topic: tms.Topic, position: Path) -> None:
    """Print messages for ever, and keep the id of the last one in the file `position`."""
    after = position.read_text() if position.exists() else None
    for message in topic.follow(after=after):
        print(message.payload.decode(errors="replace"), flush=True)
        draft = position.with_suffix(".draft")
        draft.write_text(message.id.hex())
        draft.replace(position)


def main() -> None:
    """Follow the topic that the first argument names, until Ctrl-C."""
    if len(sys.argv) != 2:
        sys.exit("usage: follow.py TOPIC")
    name = sys.argv[1]
    with tms.connect(URL) as client:
        try:
            follow(client.topic(name), Path(f"{name}.position"))
        except KeyboardInterrupt:
            print("stopped; run it again to go on", file=sys.stderr)
        except tms.TopicNotFound:
            sys.exit(f"there is no topic {name}: tms topic create {name}")


if __name__ == "__main__":
    main()
