"""A program that does not close its clients ends by itself, and no accepted call is lost silently.

Forked children have clients of their own, or get an error that explains why not. Each test is a
process (or several) with a time limit; `programs.py` has the programs.
"""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import IO

import httpx
import pytest

import tms
from tests.servers.server_process import ROOT, ServerProcess, environment
from tests.waiting import WAIT_S_MAX
from tms.client.embedded import REFUSAL_IN_CHILD

PROGRAMS = Path(__file__).with_name("programs.py")
TOPIC = "orders"
BEGUN_BEFORE = (
    "these messages were asked for before os.fork() and are given to the parent: "
    "poll again in the child"
)


@pytest.fixture
def urls(server: ServerProcess, namespace: str, tmp_path: Path) -> list[str]:
    with tms.connect(server.url) as client:
        for name in client.topics():
            client.topic(name).delete()
    return [server.url, "memory:", f"leveldb:{tmp_path / 'data'}"]


class Ended:
    """A program that has ended by itself."""

    def __init__(self, *command: str, stdin: str = "", warnings: str = "error") -> None:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=ROOT,
            env=environment() | {"PYTHONWARNINGS": warnings, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=WAIT_S_MAX,
            check=False,
        )
        self.exit_code, self.err = done.returncode, done.stderr
        self.lines = done.stdout.splitlines()


def run(name: str, *urls: str) -> Ended:
    return Ended(str(PROGRAMS), name, *urls)


def check_kept(urls: list[str], *payloads: bytes) -> None:
    for url in (urls[0], urls[2]):
        with tms.connect(url) as client:
            assert sorted(message.payload for message in client.topic(TOPIC).poll()) == [*payloads]


def test_a_script_ends(urls: list[str]) -> None:
    ended = run("end", *urls)

    assert (ended.exit_code, ended.err) == (0, "")
    check_kept(urls, b"one")


def test_a_script_ends_after_an_exception(urls: list[str]) -> None:
    ended = run("fail", *urls)

    assert ended.exit_code == 1
    assert ended.err.endswith("LookupError: as programs do\n")
    assert ended.err.count("Traceback") == 1
    check_kept(urls, b"one")


def test_the_interactive_interpreter_ends(urls: list[str]) -> None:
    told = "\n".join(f"client = tms.connect({url!r}); client.topics()" for url in urls)
    ended = Ended("-i", "-q", "-c", "import tms", stdin=f"{told}\n")

    assert ended.exit_code == 0
    assert ended.lines == ["[]"] * 3
    assert "Error" not in ended.err


def test_threads_continue_when_the_main_thread_has_ended(urls: list[str]) -> None:
    by_name = urls[0].replace("127.0.0.1", "localhost")
    ended = run("threads", by_name, *urls[1:])

    assert (ended.exit_code, ended.err) == (0, "")
    assert ended.lines == ["done"] * 3
    check_kept(urls, b"one", b"pool", b"two", b"x" * 5000)


def test_what_a_daemon_thread_has_under_way_is_finished() -> None:
    ended = run("under_way")

    assert (ended.exit_code, ended.err) == (0, "")
    assert ended.lines == ["published"]


def test_what_cannot_be_finished_is_reported() -> None:
    ended = run("never_answered")

    assert ended.exit_code == 0
    assert "the program ended during calls of daemon threads (1)" in ended.err
    assert ended.lines == []


def test_a_transaction_that_nobody_ended_is_reported(urls: list[str]) -> None:
    ended = run("open_transaction", *urls)

    assert ended.exit_code == 0
    assert ended.err.count("OPEN>, which is not committed") == 3
    check_kept(urls, b"one")


def test_what_the_program_does_at_its_exit_may_use_clients(urls: list[str]) -> None:
    ended = run("at_exit", *urls)

    assert (ended.exit_code, ended.err) == (0, "")
    assert ended.lines == ["[b'one', b'last']"] * 3
    check_kept(urls, b"last", b"one")


def test_asynchronous_clients_do_not_keep_it_from_ending(urls: list[str]) -> None:
    ended = Ended(str(PROGRAMS), "asynchronous", *urls, warnings="")

    assert (ended.exit_code, ended.err) == (0, "")
    with tms.connect(urls[2]) as client:
        assert len(list(client.topic(f"{TOPIC}_2").poll())) == 1


def test_pytest_ends(urls: list[str], tmp_path: Path) -> None:
    tests = tmp_path / "test_it.py"
    tests.write_text(
        textwrap.dedent(f"""\
        import tms

        clients = [tms.connect(url) for url in {urls!r}]

        def test_topics():
            assert [client.topics() for client in clients] == [[], [], []]
        """)
    )
    ended = Ended("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", str(tests))

    assert ended.exit_code == 0, ended.lines
    assert ended.err == ""


# Children


def test_a_forked_child_has_connections_of_its_own_and_no_store(urls: list[str]) -> None:
    ended = run("fork", *urls)

    assert (ended.exit_code, ended.err) == (0, "")
    of_remote, *refused, pid = ended.lines[:7]
    assert of_remote.endswith(f":{pid}")
    assert refused == [BEGUN_BEFORE, *[REFUSAL_IN_CHILD, BEGUN_BEFORE] * 2]
    assert ended.lines[7:] == [
        "[b'one', b'child', b'parent']",
        "[b'one', b'parent']",
        "[b'one', b'parent']",
    ]
    check_kept([urls[0]] * 3, b"child", b"one", b"parent")
    with tms.connect(urls[2]) as kept:
        assert len(list(kept.topic(TOPIC).poll())) == 2


def test_a_child_leaves_the_transaction_to_its_parent(urls: list[str]) -> None:
    ended = run("fork_in_transaction", *urls)

    assert ended.exit_code == 0
    assert ended.lines.count("[b'one', b'two']") == 3
    assert sum("the transaction was begun before os.fork()" in line for line in ended.lines) == 1
    assert ended.lines.count(REFUSAL_IN_CHILD) == 2
    assert ended.lines.count("True") == 3


def test_a_child_that_lives_longer_does_not_hold_the_folder(urls: list[str]) -> None:
    parent = subprocess.Popen(
        [sys.executable, str(PROGRAMS), "fork_and_end", *urls],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with parent:
        assert parent.wait(WAIT_S_MAX) == 0
        check_kept(urls, b"one")
        output, _ = parent.communicate(timeout=WAIT_S_MAX)

    assert output == "orphan\n"
    check_kept(urls, b"one")


@pytest.mark.slow
def test_children_of_multiprocessing_by_fork(urls: list[str]) -> None:
    ended = run("multiprocessing_fork", *urls)

    assert (ended.exit_code, ended.err) == (0, "")
    assert ended.lines == ["published", REFUSAL_IN_CHILD, REFUSAL_IN_CHILD] * 2
    check_kept([urls[0]] * 3, b"child 0", b"child 1", b"one")


@pytest.mark.slow
def test_children_of_multiprocessing_by_spawn(urls: list[str]) -> None:
    ended = run("multiprocessing_spawn", urls[0])

    assert (ended.exit_code, ended.err) == (0, "")
    assert ended.lines == ["published"] * 2


def test_a_server_that_forks_its_workers_from_a_loaded_application(
    urls: list[str], tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(
        textwrap.dedent(f"""\
        import os
        import tms

        topic = tms.connect({urls[0]!r}).topic({TOPIC!r})
        topic.create()

        def app(environ, start_response):
            topic.publish(str(os.getpid()).encode())
            start_response("200 OK", [])
            return [message.payload + b" " for message in topic.poll()]
        """)
    )
    gunicorn = subprocess.Popen(
        [
            *(sys.executable, "-m", "gunicorn", "--preload", "--workers=2", "--bind=127.0.0.1:0"),
            *("--chdir", str(tmp_path), "app:app"),
        ],
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    with gunicorn:
        try:
            assert gunicorn.stderr is not None
            address = listening_at(gunicorn.stderr)
            answers = [httpx.get(address, timeout=WAIT_S_MAX).text.split() for _ in range(4)]
        finally:
            gunicorn.send_signal(signal.SIGTERM)
        log = gunicorn.stderr.read()
        exit_code = gunicorn.wait(WAIT_S_MAX)

    assert [len(answer) for answer in answers] == [1, 2, 3, 4]
    assert str(gunicorn.pid) not in answers[-1]
    assert (exit_code, "Traceback" in log) == (0, False), log


def listening_at(log: IO[str]) -> str:
    for line in log:
        if "Listening at: " in line:
            return line.split("Listening at: ")[1].split()[0]
    raise AssertionError("it did not start")


LEFT_TO_THE_COLLECTOR = """
import asyncio, gc, sys, threading
import tms, tms.client.threads.program_end as end
from tms.client.threads.bridge import Bridge

ends, close, finish = threading.Event(), Bridge._end, end._finish

async def close_late(bridge):
    await asyncio.to_thread(ends.wait)
    await close(bridge)
    print("closed", flush=True)

def finish_later(client):
    ends.set()
    finish(client)

Bridge._end, end._finish = close_late, finish_later
ring = [tms.connect(sys.argv[1])]
ring.append(ring)
ring[0].topics()
del ring
gc.collect()
"""


def test_a_client_that_closes_itself_is_waited_for(tmp_path: Path) -> None:
    folder = f"leveldb:{tmp_path / 'data'}"
    ended = Ended("-c", LEFT_TO_THE_COLLECTOR, folder, warnings="ignore")

    assert (ended.exit_code, ended.lines, ended.err) == (0, ["closed"], "")
