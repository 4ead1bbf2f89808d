"""Commands whose input and output are closed, full, or in another encoding.

Each ends in one line that says so, and no message is lost by it.
"""

import io
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import tms
from tests.servers.bounded_process import BoundedProcess
from tests.servers.server_process import MAIN, ROOT, ServerProcess, environment
from tests.waiting import WAIT_S_MAX
from tms.cli import serve
from tms.cli.standard_streams import StreamFailed

TMS = f"{shlex.quote(sys.executable)} -c {shlex.quote(MAIN)}"
NO_INPUT = "Standard input cannot be read: Bad file descriptor.\n"
CLOSED = "Standard output cannot be written: Bad file descriptor.\n"
FULL = "Standard output cannot be written: No space left on device.\n"
SAID = {
    "tms publish orders --stdin <&-": NO_INPUT,
    "tms publish-all - <&-": NO_INPUT,
    "tms poll orders >&-": CLOSED,
    "tms --version >/dev/full": FULL,
    "tms config >/dev/full": FULL,
    "tms publish other --json one >/dev/full": f"Published 1 message before this:\n{FULL}",
}

Ended = tuple[int, bytes, str]


def shell(*commands: str, **variables: str) -> list[Ended]:
    """Run shell commands in which `tms` is ours, all at once, each in a shell of its own."""
    with ExitStack() as processes:
        started = [
            processes.enter_context(
                BoundedProcess[bytes](
                    ["sh", "-c", f'tms() {{ {TMS} "$@"; }}; {command}'],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=environment() | variables,
                    cwd=ROOT,
                )
            )
            for command in commands
        ]
        told = [process.communicate(timeout=WAIT_S_MAX) for process in started]
        return [
            (process.returncode, out, err.decode())
            for process, (out, err) in zip(started, told, strict=True)
        ]


@pytest.fixture(scope="module")
def topic(server: ServerProcess) -> Iterator[tms.Topic]:
    """A topic with a message that some encodings lack, and a subscription at its start."""
    with tms.connect(server.url, "streams") as client:
        topic = client.topic("orders")
        topic.create()
        topic.publish([text.encode() for text in ("é", "€", "😀")])
        client.topic("other").create()
        yield topic


def at(server: ServerProcess, **more: str) -> dict[str, str]:
    return {"TMS_URL": server.url, "TMS_NAMESPACE": "streams", **more}


def test_a_stream_that_cannot_be_used_is_reported_in_a_line(
    server: ServerProcess, topic: tms.Topic
) -> None:
    silent = "tms publish other one >&-"
    *ended, published = shell(*SAID, silent, **at(server))

    assert dict(zip(SAID, ended, strict=True)) == {
        command: (1, b"", said) for command, said in SAID.items()
    }
    assert published == (0, b"", "Published 1 message.\n")


def test_what_was_not_printed_stays_with_a_subscription(
    server: ServerProcess, topic: tms.Topic
) -> None:
    billing = topic.subscription("billing")
    billing.create()
    asked = "tms poll orders --subscription billing"

    ended = shell(f"{asked} >&-", f"{asked} --follow >/dev/full", **at(server))

    assert ended == [(1, b"", CLOSED), (1, b"", FULL)]
    assert billing.position().after is None


def test_what_output_cannot_encode_is_escaped(server: ServerProcess, topic: tms.Topic) -> None:
    billing = topic.subscription("billing-in-ascii")
    billing.create()
    asked = "tms poll orders --json --subscription billing-in-ascii"

    [(code, out, err)] = shell("tms poll orders", **at(server, PYTHONIOENCODING="latin-1"))
    assert (code, err) == (0, "")
    payloads = [line.split("  ")[-1] for line in out.decode("latin-1").splitlines()]
    assert payloads == ["é", r"\u20ac", r"\ud83d\ude00"]

    [(code, out, err)] = shell(asked, **at(server, PYTHONIOENCODING="ascii"))
    assert (code, err) == (0, "")
    lines = out.decode("ascii").splitlines()
    assert [json.loads(line)["payload"] for line in lines] == ["é", "€", "😀"]
    assert billing.position().after == list(topic.poll())[-1].id


class Unwritable(io.RawIOBase):
    """Standard output that refuses every write."""

    def writable(self) -> bool:
        return True

    def write(self, _data: object) -> int:
        raise StreamFailed("Standard output cannot be written: No space left on device.")


def test_a_server_serves_though_its_greeting_cannot_be_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    monkeypatch.setattr(
        "tms.server.serving.process.serve", lambda _, greet: told.append(greet("http://here"))
    )
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(Unwritable())))

    serve._serve(config=None, store="memory:")

    assert len(told) == 1
