"""`tms metadata` on ZooKeeper and etcd, as an operator would use it."""

import json
import subprocess

import pytest

from tests.cli.conftest import Outcome, run_command
from tests.servers.server_process import ROOT, environment, tms_command
from tests.waiting import wait_until
from tms.cli.failure import ExitCode

pytestmark = pytest.mark.slow


def on(url: str, verb: str, *arguments: str) -> Outcome:
    return run_command("metadata", verb, "--store", url, *arguments)


def test_values_are_put_shown_listed_and_deleted(remote: str) -> None:
    assert on(remote, "put", "/a/b", "one", "--new")[1].startswith("/a/b: version 0, modified ")
    assert on(remote, "put", "/a/b", "two", "--version", "0")[0] == 0
    code, _, err = on(remote, "put", "/a/b", "three", "--version", "0")
    assert code == ExitCode.REFUSED
    assert err.startswith("The value at this path does not have the")

    assert on(remote, "get", "/a/b")[1].endswith("\ntwo\n")
    assert json.loads(on(remote, "ls", "/a", "--json")[1]) == [{"name": "b", "version": 1}]
    assert on(remote, "rm", "/a/b", "--version", "1")[0] == 0
    assert on(remote, "rm", "/a/b")[2].startswith("There is no value at this path.")


def test_changes_are_reported_as_they_happen(remote: str) -> None:
    watching = subprocess.Popen(
        [*tms_command(), "metadata", "watch", "/a", "--limit", "3", "--json", "--store", remote],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
        cwd=ROOT,
    )

    def has_ended() -> bool:
        on(remote, "put", "/a/b", "x")  # repeated, because the watch may not have begun
        return watching.poll() is not None

    wait_until(has_ended)
    assert watching.poll() == 0
    assert watching.stdout is not None
    told = [json.loads(line) for line in watching.stdout.read().splitlines()]
    watching.stdout.close()

    assert len(told) == 3
    assert {each["path"] for each in told} <= {"/a", "/a/b"}
    assert {each["change"] for each in told} <= {"created", "modified", "children changed"}


def test_a_server_that_is_not_there_is_reported() -> None:
    code, out, err = on("zk://127.0.0.1:1/tms?session_timeout_s=2", "ls")

    assert (code, out) == (ExitCode.AWAY, "")
    assert err.startswith("The metadata store could not be reached")
