"""No command, not even with JSON output, sends foreign text to a terminal without escaping it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import tms
from tests.cli.conftest import Outcome, Run, run_command
from tests.cli.examples_of_commands import READING, READING_GROUPS, SERVERS, WRITING
from tests.client.faulty_server import FaultyServer, answer
from tests.servers.server_process import ServerProcess
from tms.core.text.printable import printable

HARM = "\x1b[31m\x1b]0;x\x07\x9b2J\u202e\u2066\r\x08\x7f\u3164\u2800\u00ad\U000e0100\u200b"
UNSEEN = re.compile("[^\n\t -~]")
"""Non-ASCII letters can only come from `HARM`: nothing else here has any."""
CODES = ("topic_not_found", "no_such_code")
EVERY = [*READING, *READING_GROUPS, *WRITING, *SERVERS]


def check(outcome: Outcome) -> None:
    for shown in outcome[1:]:
        assert not UNSEEN.findall(shown.replace("…", "")), shown


def refusals() -> Iterator[bytes]:
    """Yield the errors that a server may return, most of them for an error that it documents."""
    for code in CODES:
        detail = {"topic": f"a:{HARM}", "reason": HARM, HARM: HARM, "subscription": HARM}
        error = {"code": code, "message": HARM, "detail": detail}
        yield answer(409, json.dumps({"error": error}, ensure_ascii=False).encode())
    registrys = {"error_code": 42201, "message": HARM}
    yield answer(422, json.dumps(registrys, ensure_ascii=False).encode())
    yield answer(200, json.dumps({HARM: HARM}, ensure_ascii=False).encode())


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("files")
    (place / "schema").write_text('{"type": "string"}')
    (place / "lines").write_text('{"topic": "t", "message": "x"}\n')
    (place / "exported").write_text('{"payload": "x"}\n')
    return {
        "FILE": str(place / "schema"),
        "LINES": str(place / "lines"),
        "EXPORTED": str(place / "exported"),
        "TX": "1",
    }


@pytest.mark.parametrize("command", EVERY, ids=" ".join)
def test_what_a_server_refuses(command: tuple[str, ...], words: dict[str, str]) -> None:
    arguments = [words.get(word, word) for word in command]
    for said in refusals():
        with FaultyServer(*[said] * 40) as server:
            check(run_command("--url", server.url, *arguments))


def test_what_is_in_a_store(run: Run, server: ServerProcess, words: dict[str, str]) -> None:
    """Hostile names, owners, reasons and payloads, each in every place where it may occur."""
    namespace = "printable"
    base = f"{server.url}/v1/namespaces/{namespace}/topics/t"
    with httpx.Client(trust_env=False) as http, tms.connect(server.url, namespace=namespace) as own:
        assert http.put(base, json={HARM: HARM}).is_success
        own.topic("t").publish(tms.Message(HARM.encode(), HARM.encode(), {HARM: HARM.encode()}))
        started = http.post(
            f"{server.url}/v1/transactions", json={"owner": HARM}, headers={"user-agent": "x"}
        )
        words = {**words, "TX": str(started.json().get("transaction_id", 1))}
        http.put(f"{base}/subscriptions/s")
        http.put(f"{base}/subscriptions/g", json={"kind": "shared"})
        taken = http.post(f"{base}/subscriptions/g/take", json={"member": "m"}).json()
        nack = {"delivery": taken["delivery"], "reason": HARM}
        settle = {"member": "m", "nacks": [nack]}
        assert http.post(f"{base}/subscriptions/g/settle", json=settle).is_success
    seen = ""
    for command in (*READING, *READING_GROUPS, ("status",), ("debug", "rows"), ("tx", "list")):
        arguments = ["--namespace", namespace, *(words.get(word, word) for word in command)]
        for more in ([], ["--json"]):
            outcome = run(*more, *arguments)
            check(outcome)
            seen += outcome[1] if not more else ""
            if more and outcome[0] == 0:
                [json.loads(line) for line in outcome[1].splitlines()]
    assert r"\u001b[31m" in seen


def test_json_means_the_same(run: Run) -> None:
    run("topic", "create", "t")
    run("publish", "t", HARM)

    [line] = run("poll", "t", "--json")[1].splitlines()

    assert json.loads(line)["payload"] == HARM


def test_what_can_be_seen_stays() -> None:
    assert printable("Grüße, 世界 \U0001f600\n", allowed="\n") == "Grüße, 世界 \U0001f600\n"
    assert printable("a\nb\t") == r"a\nb\t"
    assert json.loads(f'"{printable(HARM)}"') == HARM


def test_a_wrong_argument_is_printed_as_codes(tmp_path: Path) -> None:
    check(run_command("topic", HARM.replace("\0", "")))
    check(run_command("publish", "t", "--lines", str(tmp_path / HARM)))
