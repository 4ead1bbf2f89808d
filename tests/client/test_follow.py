"""Following through a server that dies and comes back."""

import re
import signal
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE

import pytest

import tms
from tests.client.faulty_server import FaultyServer, answer
from tests.servers.server_process import ROOT, ServerProcess, environment, tms_command
from tests.waiting import WAIT_S_MAX
from tms.core.values.message import Message, MessageBlock
from tms.wire.avro_frames import AVRO_FRAMES

CRASHES = 2
MESSAGES_PER_LIFE = 50


@pytest.mark.slow
def test_a_follow_outlives_crashes_of_the_server_and_misses_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    store = f"leveldb:{tmp_path / 'data'}"
    server = ServerProcess(store)
    followed: list[Message] = []
    expected = (CRASHES + 1) * MESSAGES_PER_LIFE

    def follow() -> None:
        with tms.connect(server.url, retry_for_s=0.2) as client:
            for message in client.topic("orders").follow():
                followed.append(message)
                if len(followed) == expected:
                    break

    with tms.connect(server.url) as client:
        topic = client.topic("orders")
        topic.create()
        follower = threading.Thread(target=follow)
        follower.start()
        for life in range(CRASHES + 1):
            for number in range(MESSAGES_PER_LIFE):
                topic.publish(b"%d" % (life * MESSAGES_PER_LIFE + number))
            if life < CRASHES:
                server.kill()
                server = ServerProcess(store, port=server.port)
                assert server.url  # it serves
        follower.join(WAIT_S_MAX)
        assert list(topic.poll()) == followed
    assert server.stop() == 0

    assert [message.payload for message in followed] == [b"%d" % n for n in range(expected)]


def test_following_on_the_command_line_reports_that_the_server_is_away_and_back(
    tmp_path: Path,
) -> None:
    store = f"leveldb:{tmp_path / 'data'}"
    with ExitStack() as ends:
        server = ends.enter_context(ServerProcess(store))
        with tms.connect(server.url) as client:
            client.topic("orders").create()
            client.topic("orders").publish(b"before")
        command = [*tms_command(), "--url", server.url, "poll", "orders", "--follow"]
        follow = ends.enter_context(
            subprocess.Popen(
                command, stdout=PIPE, stderr=PIPE, text=True, env=environment(), cwd=ROOT
            )
        )
        ends.callback(follow.kill)
        assert follow.stdout is not None
        assert follow.stderr is not None
        assert follow.stdout.readline().endswith("  before\n")
        server.kill()
        assert re.match(r".+: trying again in 0\.\d s$", follow.stderr.readline())
        server = ends.enter_context(ServerProcess(store, port=server.port))
        with tms.connect(server.url) as client:
            client.topic("orders").publish(b"after")
        assert follow.stdout.readline().endswith("  after\n")
        told = iter(follow.stderr.readline, "")
        assert next(line for line in told if not line.endswith(" s\n")).startswith(
            "Answered again,"
        )
        follow.send_signal(signal.SIGINT)
        assert follow.wait(WAIT_S_MAX) == 130
        assert server.stop() == 0


def test_a_server_that_waits_no_more_is_not_kept_busy() -> None:
    message = Message(b"at last", id=tms.MessageId(1, 1).encode())
    empty = answer(200, b"\x00")
    full = answer(200, AVRO_FRAMES.encode_block(MessageBlock.of([message]), first=True) + b"\x00")
    with FaultyServer(empty, empty, full) as server, tms.connect(server.url) as client:
        begun = time.monotonic()
        assert next(client.topic("t").follow()) == message
        assert time.monotonic() - begun >= 0.2
