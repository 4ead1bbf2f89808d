"""The programs in examples/ run as they are and print what they should."""

import hashlib
import hmac
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import httpx
import pytest

import tms
from tests.docs.markdown import ROOT
from tests.docs.newcomer import Newcomer, is_as_told
from tests.waiting import WAIT_S_MAX

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples"

PRINTED = {
    "publish_and_poll.py": """
one alone
two that are published
both or none
after those: and one more
""",
    "transactional_publish.py": """
order 2: out of stock; rolled back
committed:  ['order 1'] ['order 1']
everything: ['order 1', 'order 2']
""",
    "transactions.py": """
published
published before
the printer is jammed at jam
rows:  ['bread', 'jam', 'tea']
bills: ['a bill for bread', 'a bill for jam', 'a bill for tea']
""",
    "embedded.py": """
runs so far: 1
runs so far: 2
heard: it works
""",
    "curl.sh": """
create, with a time to live of an hour
publish text, and bytes that are not text as base64
poll everything:
[{"id":"…","timestamp":…,"payload":"text"},{"id":"…","timestamp":…,"payload":{"base64":"/wA="}}]
poll only the first message, then those after it:
[{"id":"…","timestamp":…,"payload":"text"}]
[{"id":"…","timestamp":…,"payload":{"base64":"/wA="}}]
start a transaction, store under it, publish what was stored, roll it back
{"transactionWritePointer":…,"rollbackRange":{…}}
{"status":"aborted"}
change the properties, and show them:
{"name":"…","properties":{"generation":"1","ttl":"60"}}
a wrong request says what is wrong:
{"error": {"code": "invalid_limit", "message": "…", "detail": {…}, "request_id": "…"}}
""",
}


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    with Newcomer(tmp_path_factory.mktemp("newcomer")) as newcomer:
        newcomer.serve()
        yield newcomer


def test_every_example_is_run_here() -> None:
    there = {path.name for path in EXAMPLES.iterdir() if path.is_file()}

    # tests/participants runs the last one, with a PostgreSQL.
    assert there == {
        *PRINTED,
        "follow.py",
        "mirror_schemas.py",
        "webhook.py",
        "group_postgresql.py",
    }


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_it_prints_what_it_should(name: str, newcomer: Newcomer) -> None:
    runner = ("bash",) if name.endswith(".sh") else (sys.executable, "-W", "error")
    printed = newcomer.run(*runner, str(EXAMPLES / name))

    assert is_as_told(PRINTED[name], printed), printed


def test_examples_leave_nothing_behind(newcomer: Newcomer) -> None:
    with tms.connect(newcomer.url) as client:
        assert [name for name in client.topics() if name.startswith("example-")] == []
    assert set(newcomer.run("ls").split()) == {"examples", "tms-data"}


class Follower:
    """examples/follow.py, running."""

    def __init__(self, url: str, topic: str, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(EXAMPLES / "follow.py"), topic],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMS_URL": url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        # If no line ever arrives, the end of the process ends the reading.
        self._watchdog = threading.Timer(WAIT_S_MAX, self._process.kill)
        self._watchdog.start()

    def lines(self, count: int) -> list[str]:
        """Return the next lines it prints."""
        out: IO[str] | None = self._process.stdout
        assert out is not None
        return [out.readline().rstrip("\n") for _ in range(count)]

    def interrupt(self) -> str:
        """End it by Ctrl-C; return what it writes to standard error."""
        self._process.send_signal(signal.SIGINT)
        _, said = self._process.communicate(timeout=WAIT_S_MAX)
        self._watchdog.cancel()
        return said


def test_follow_continues_where_it_stopped(newcomer: Newcomer, tmp_path: Path) -> None:
    with tms.connect(newcomer.url) as client:
        topic = client.topic("followed")
        topic.create()
        topic.publish([b"one", b"two"])
        first = Follower(newcomer.url, "followed", tmp_path)
        printed = first.lines(2)
        topic.publish(b"three")
        printed += first.lines(1)
        said = first.interrupt()
        topic.publish(b"four")
        second = Follower(newcomer.url, "followed", tmp_path)
        printed += second.lines(1)
        second.interrupt()

    # The interruption may break off a waiting poll, and another thread then reports that.
    assert "stopped; run it again to go on" in said.splitlines()
    # The third message is processed again if the interruption came before its id was stored.
    assert printed in (["one", "two", "three", "four"], ["one", "two", "three", "three"])


def test_webhook(newcomer: Newcomer) -> None:
    program = [sys.executable, str(EXAMPLES / "webhook.py"), "hooks", "0"]
    told = {"TMS_URL": newcomer.url, "PYTHONPATH": str(ROOT), "WEBHOOK_SECRET": "s"}
    with subprocess.Popen(program, env=os.environ | told, stdout=subprocess.PIPE, text=True) as run:
        try:
            assert run.stdout is not None
            url = run.stdout.readline().split()[-1]

            def deliver(body: bytes, signature: str) -> int:
                fields = {"x-hub-signature-256": signature, "x-github-delivery": "7"}
                return httpx.post(url, content=body, headers=fields, trust_env=False).status_code

            signed = f"sha256={hmac.new(b's', b'{}', hashlib.sha256).hexdigest()}"
            assert [deliver(b"{}", signed), deliver(b"{ }", signed)] == [204, 401]
            assert [deliver(b"{}", ""), deliver(b"", signed)] == [401, 413]
            with tms.connect(newcomer.url) as client:
                [message] = client.topic("hooks").poll()
            assert (message.payload, message.headers["delivery"]) == (b"{}", b"7")
        finally:
            run.kill()
