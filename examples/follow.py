"""Print a topic's messages as they come, and go on where it stopped when it is run again.

It keeps its position itself, in a file; a subscription (`topic.subscription`) is one that the
server keeps, and that moves with a transaction. It writes the
position after it has dealt with a message: should it crash in between, it deals with that message
once more.

    python examples/follow.py orders            in one terminal
    tms publish orders "hello"                  in another
"""

import os
import sys
from pathlib import Path

import tms

URL = os.environ.get("TMS_URL", "http://127.0.0.1:11015")


def follow(topic: tms.Topic, position: Path) -> None:
    """Print what comes, for ever, and keep the id of the last message in the file `position`."""
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
