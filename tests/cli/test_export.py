"""`tms import` publishes exactly what `tms export` wrote: the same, in order, and once."""

import itertools
import json
import random
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tms
from tests.cli.conftest import run_command
from tests.core.framed_messages import CONTENTS
from tests.scale import scaled, seed
from tests.servers.server_process import ServerProcess, tms_command
from tms import Message
from tms.core.errors import TransactionConflict

FORMS = ("ndjson", "avro")
PUBLISHED = CONTENTS.filter(lambda each: each.key is not None or not each.is_tombstone)
_names = itertools.count()


def content(messages: list[Message]) -> list[Message]:
    """Return messages without their ids."""
    return [each._replace(id=b"", headers=dict(each.headers)) for each in messages]


@pytest.mark.parametrize("form", FORMS)
@settings(
    max_examples=scaled(50),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(messages=st.lists(PUBLISHED, max_size=20))
def test_an_import_equals_its_export(
    form: str, messages: list[Message], server: ServerProcess, tmp_path: Path
) -> None:
    namespace, file = f"x{next(_names)}", tmp_path / f"{next(_names)}.{form}"
    shared = ("--url", server.url, "--namespace", namespace)
    with tms.connect(server.url, namespace) as client:
        source, target = client.topic("source"), client.topic("target")
        source.create()
        target.create()
        if messages:
            source.publish(messages)
        assert run_command("export", "source", str(file), *shared)[0] == 0
        for _ in range(2):
            assert run_command("import", "target", str(file), *shared)[0] == 0
        assert content(list(target.poll())) == content(list(source.poll())) == content(messages)
        assert content(list(target.poll(committed=True))) == content(messages)


def exported(server: ServerProcess, namespace: str, *arguments: str) -> list[str]:
    shared = ("--url", server.url, "--namespace", namespace)
    code, out, err = run_command("export", "t", *arguments, *shared)
    assert code == 0, err
    return [json.loads(line)["payload"] for line in out.splitlines()]


def test_ranges_and_committed_messages(server: ServerProcess) -> None:
    namespace = f"x{next(_names)}"
    with tms.connect(server.url, namespace) as client:
        topic = client.topic("t")
        topic.create()
        topic.publish([b"a", b"b"])
        with suppress(TransactionConflict), client.transaction() as tx:
            topic.publish(b"rolled back", tx)
            raise TransactionConflict
        topic.publish(b"c")
        ids = [each.id.hex() for each in topic.poll()]
    assert exported(server, namespace) == ["a", "b", "rolled back", "c"]
    assert exported(server, namespace, "--committed") == ["a", "b", "c"]
    assert exported(server, namespace, "--from", ids[1], "--to", ids[3]) == ["b", "rolled back"]
    assert exported(server, namespace, "--to", "2020-01-01") == []
    assert exported(server, namespace, "--from", "2020-01-01", "--committed", "--to", ids[1]) == [
        "a"
    ]


def test_an_interrupted_import_continues_in_order_beside_others(
    server: ServerProcess, tmp_path: Path
) -> None:
    chance, namespace, file = random.Random(seed()), f"x{next(_names)}", tmp_path / "big.ndjson"
    lines = [f"{number} {'x' * chance.choice((0, 1000))}" for number in range(3000)]
    file.write_text("".join(json.dumps({"payload": line}) + "\n" for line in lines))
    arguments = ["import", "t", str(file), "--url", server.url, "--namespace", namespace]
    with tms.connect(server.url, namespace) as client:
        topic = client.topic("t")
        topic.create()
        for _ in range(scaled(20, 4)):
            with subprocess.Popen(
                [*tms_command(), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ) as process:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(chance.uniform(0, 0.6))
                process.kill()
            topic.publish(b"of another")
        assert run_command(*arguments)[0] == 0
        assert "0 messages; 3000" in run_command(*arguments)[1]
        found = [each.payload.decode() for each in topic.poll()]
    assert [each for each in found if each != "of another"] == lines


def test_a_file_that_is_cut_or_damaged_is_told(server: ServerProcess, tmp_path: Path) -> None:
    namespace = f"x{next(_names)}"
    shared = ("--url", server.url, "--namespace", namespace)
    with tms.connect(server.url, namespace) as client:
        client.topic("t").create()
        client.topic("t").publish([b"payload %d" % number for number in range(1000)])
        for form in FORMS:
            file = tmp_path / f"whole.{form}"
            assert run_command("export", "t", str(file), *shared)[0] == 0
            assert run_command("export", "t", str(file), *shared)[0] == 2
            cut = tmp_path / f"cut.{form}"
            cut.write_bytes(file.read_bytes()[:-5])
            code, _, err = run_command("import", "t", str(cut), *shared)
            assert (code, "Traceback" in err) == (1, False), err
    for line in ('{"payload": "x", "payload": "y"}', '{"value": 1}', "{}", '{"payload": 1}', "x"):
        file = tmp_path / "wrong.ndjson"
        file.write_text(line + "\n")
        code, _, err = run_command("import", "t", str(file), *shared)
        assert (code, "line 1" in err) == (1, True), line
    assert run_command("import", "t", "-", *shared)[0] == 2
