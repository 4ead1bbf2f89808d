"""Workers in processes of their own: they forget to close, fork, are stopped, or pause."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import tms
from tests.servers.server_process import ROOT
from tests.waiting import WAIT_S_MAX, wait_until

pytestmark = pytest.mark.parametrize("store_kind", ["server"])

PROGRAM = Path(__file__).with_name("group_programs.py")


@pytest.fixture
def group(client: tms.Client, topic: tms.Topic) -> tms.TopicGroup:
    client.topic("bills").create()
    topic.publish([b"%d" % number for number in range(10)])
    group = topic.group("billing")
    group.create()
    return group


Start = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def started(url: str, namespace: str) -> Iterator[Start]:
    with ExitStack() as ends:

        def start(name: str) -> subprocess.Popen[str]:
            program = ends.enter_context(started_at(name, url, namespace))
            ends.callback(program.kill)
            return program

        yield start


def started_at(name: str, url: str, namespace: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), name, url, namespace],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def is_done(group: tms.TopicGroup) -> bool:
    state = group.show().state
    return state.open + state.unread == 0


def bills(client: tms.Client) -> list[int]:
    return sorted(int(bill.payload) for bill in client.topic("bills").poll(committed=True))


def test_a_program_that_forgets_to_close_gives_back_what_it_took_ahead(
    started: Start, group: tms.TopicGroup
) -> None:
    assert started("forget_to_close").wait(WAIT_S_MAX) == 0

    assert {(each.state, each.attempts) for each in group.open()} <= {("available", 0)}
    assert group.show().state.members <= 1
    assert group.show().state.leased == 0


@pytest.mark.usefixtures("group")
def test_a_child_takes_as_a_member_of_its_own(started: Start, client: tms.Client) -> None:
    out, _ = started("fork").communicate(timeout=WAIT_S_MAX)

    said = out.splitlines()
    assert said[:2] == ["not the child's"] * 2
    assert {line.split()[0] for line in said[2:]} == {"child", "parent"}
    assert len({line.split()[1] for line in said[2:]}) == 2
    assert bills(client) == []


@pytest.mark.parametrize("name", ["work", "work_in_asyncio"])
def test_sigterm_ends_a_worker_when_its_work_is_done(
    started: Start, client: tms.Client, group: tms.TopicGroup, name: str
) -> None:
    program = started(name)
    assert program.stdin is not None
    assert program.stdout is not None
    begun = [program.stdout.readline()]
    program.send_signal(signal.SIGTERM)
    program.stdin.close()
    said = [*begun, *program.stdout.read().splitlines(keepends=True)]
    assert program.wait(WAIT_S_MAX) == 0

    assert said[-1] == "ended\n"
    done = [int(line.split()[1]) for line in said[:-1]]
    assert bills(client) == sorted(done)
    left = group.show().state
    assert (left.leased, left.waiting, left.open + left.unread) == (0, 0, 10 - len(done))


@pytest.mark.slow
def test_a_worker_that_pauses_loses_its_messages_and_bills_none_twice(
    started: Start, client: tms.Client, group: tms.TopicGroup
) -> None:
    first = started("work")
    assert first.stdin is not None
    assert first.stdout is not None
    first.stdout.readline()  # it has leased some, and left the second one none
    first.send_signal(signal.SIGSTOP)
    second = started("work")
    assert second.stdin is not None
    second.stdin.close()
    wait_until(lambda: is_done(group))  # including what the first one had leased
    first.send_signal(signal.SIGCONT)
    first.stdin.close()
    wait_until(lambda: len(bills(client)) == 10 and not group.open())
    for program in (first, second):
        program.send_signal(signal.SIGTERM)
        assert program.wait(WAIT_S_MAX) == 0

    assert bills(client) == list(range(10))
