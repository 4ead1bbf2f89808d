"""The commands as processes: signals, pipes, and a server from start to stop."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import tms
from tests.cli.conftest import run_command
from tests.servers.bounded_process import BoundedProcess
from tests.servers.server_process import ROOT, ServerProcess, environment, tms_command
from tests.waiting import WAIT_S_MAX
from tms.core.runtime.extras import install_command


def start(*arguments: str, **variables: str) -> BoundedProcess[str]:
    return BoundedProcess(
        [*tms_command(), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment() | variables,
        cwd=ROOT,
    )


@pytest.fixture
def topic(server: ServerProcess, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W", "-", request.node.name)
    with tms.connect(server.url) as client:
        client.topic(name).create()
    return str(name)


def test_a_line_is_published_when_it_arrives(server: ServerProcess, topic: str) -> None:
    follow = start("poll", topic, "--follow", "--json", TMS_URL=server.url)
    publish = start("publish", topic, "--stdin", TMS_URL=server.url)
    with follow, publish:
        assert publish.stdin is not None
        assert follow.stdout is not None
        for line in ("one", "two"):
            publish.stdin.write(line + "\n")
            publish.stdin.flush()
            assert json.loads(follow.stdout.readline())["payload"] == line
        publish.stdin.close()
        assert publish.wait(WAIT_S_MAX) == 0
        follow.send_signal(signal.SIGINT)
        assert follow.stderr is not None
        assert follow.stderr.read() == ""
        assert follow.wait(WAIT_S_MAX) == 130


def test_progress_is_drawn_on_a_terminal_and_ranges_stay_apart(
    server: ServerProcess, topic: str, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"a line\n" * 3000)
    with tms.connect(server.url) as client:
        started = client.transactions.start(tms.StartRequest(timeout_s=60))
    pointer = str(started.write_pointer)
    master, terminal = os.openpty()
    with BoundedProcess(
        [*tms_command(), "publish", topic, "--tx", pointer, "--lines", str(lines)],
        stdout=subprocess.PIPE,
        stderr=terminal,
        text=True,
        env=environment() | {"TMS_URL": server.url, "TERM": "xterm"},
        cwd=ROOT,
    ) as process:
        os.close(terminal)
        out, _ = process.communicate(timeout=WAIT_S_MAX)
    drawn = os.read(master, 65536).decode()
    os.close(master)

    assert [line.split(":")[0] for line in out.splitlines()] == [pointer] * 3
    assert "kB" in drawn
    assert "\x1b[" in drawn


def test_a_reader_that_has_enough_is_not_an_error(server: ServerProcess, topic: str) -> None:
    with tms.connect(server.url) as client:
        client.topic(topic).publish([b"x" * 100] * 5000)
    with start("poll", topic, TMS_URL=server.url) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        process.wait(WAIT_S_MAX)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGPIPE])
def test_a_take_that_is_ended_gives_all_back(
    server: ServerProcess, topic: str, end: signal.Signals
) -> None:
    with tms.connect(server.url) as client:
        group = client.topic(topic).group("billing")
        group.create()
        client.topic(topic).publish([b"%d" % number for number in range(30)])
        with start("group", "take", topic, "billing", TMS_URL=server.url) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            for _ in range(30):
                process.stdout.readline()
            if end is signal.SIGPIPE:
                process.stdout.close()  # and nothing is written any more
            else:
                process.send_signal(end)
            assert process.stderr.read() == ""
            code = process.wait(WAIT_S_MAX)
        assert code == (1 if end is signal.SIGPIPE else 128 + end)
        assert {(each.state, each.attempts) for each in group.open()} == {("available", 0)}


def test_a_poll_for_ever_ends_when_nobody_reads(server: ServerProcess, topic: str) -> None:
    with tms.connect(server.url) as client:
        client.topic(topic).publish(b"one")
    with start("poll", topic, "--follow", TMS_URL=server.url) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(WAIT_S_MAX) == 1


def test_a_server_serves_until_it_is_stopped(tmp_path: Path) -> None:
    store = f"leveldb:{tmp_path / 'data'}"
    with ServerProcess(store, "--topic-info", "flat") as server:
        with tms.connect(server.url) as client:
            client.topic("orders").create(owner="shop")
            client.topic("orders").publish(b"kept")
            assert client.topic("orders").properties()["owner"] == "shop"
        code, _, err = run_command("serve", "--store", store, "--listen", "127.0.0.1:0")
        assert code == 1
        assert err.splitlines()[-1].startswith("The data folder is open already.")
        taken = ("--listen", f"127.0.0.1:{server.port}")
        code, _, err = run_command("serve", "--store", "memory:", *taken)
        assert code == 1
        assert f"Cannot serve memory: at 127.0.0.1:{server.port}" in err
        assert "Traceback" not in err
        assert server.stop() == 0
    with tms.connect(store) as client:
        assert [message.payload for message in client.topic("orders").poll()] == [b"kept"]


WITHOUT_SERVER_EXTRA = """
import json, sys
for name in ("plyvel", "plyvel_next", "prometheus_client", "pydantic_settings", "starlette",
             "sortedcontainers", "cachetools", "uvloop"):
    sys.modules[name] = None
from typer.testing import CliRunner
from tms.cli.main import app
for command in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, command, prog_name="tms")
    print(json.dumps([done.exit_code, done.stdout, done.stderr]))
"""


def without_extra(*commands: tuple[str, ...]) -> list[tuple[int, str, str]]:
    """Run commands, one after another, in a process without the packages of the extra."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SERVER_EXTRA, json.dumps(commands)],
        capture_output=True,
        text=True,
        env=environment(),
        cwd=ROOT,
        timeout=WAIT_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def test_without_the_server_extra_the_client_commands_work_and_others_name_it(
    server: ServerProcess, topic: str
) -> None:
    url = ("--url", server.url)
    of_servers = (
        ("serve", "--store", "memory:"),
        ("config",),
        ("--url", "memory:", "topic", "list"),
    )
    published, polled, helped, *named = without_extra(
        (*url, "publish", topic, "one"), (*url, "poll", topic), ("--help",), *of_servers
    )
    assert published[0] == polled[0] == helped[0] == 0
    assert polled[1].endswith("  one\n")
    assert "serve" in helped[1]
    for code, out, err in named:
        assert (code, out) == (1, "")
        assert err.rstrip().endswith(install_command("server"))
        assert err.count("\n") == 1


def test_a_poll_that_waits_says_at_which_transaction(server: ServerProcess, topic: str) -> None:
    with tms.connect(server.url) as client:
        orders = client.topic(topic)
        orders.subscription("billing").create()
        reader = client.transactions.start(tms.StartRequest(timeout_s=1000))
        ways = (
            ("--committed", "--wait", "30"),
            ("--committed", "--follow", "--limit", "1"),
            ("--committed", "--subscription", "billing", "--wait", "30"),
            ("--tx", str(reader.transaction_id), "--wait", "3"),
        )
        tx = client.transactions.start(tms.StartRequest(timeout_s=1000, client="host:123"))
        orders.publish(b"in progress", tx)
        with ExitStack() as polls:
            started = [
                polls.enter_context(start("poll", topic, *way, TMS_URL=server.url)) for way in ways
            ]
            for poll in started:
                assert poll.stderr is not None
                line = poll.stderr.readline()
                assert f"Waiting in default:{topic}: stopped at transaction" in line
                assert f"transaction {tx.transaction_id} of client host:123, " in line
                assert " old, times out in 16 min" in line
            client.transactions.commit(tx.transaction_id)
            ended = [poll.communicate(timeout=WAIT_S_MAX) for poll in started]
            assert [err for _, err in ended] == [""] * 4
            assert ["in progress" in out for out, _ in ended] == [True, True, True, False]
