"""Exit codes that scripts can tell apart, and errors as JSON."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Run, run_command
from tests.client.faulty_server import FaultyServer, answer
from tests.docs.markdown import ROOT
from tms.cli.failure import ExitCode, exit_code_of
from tms.core.errors import error_of
from tms.core.errors.catalogue import CATALOGUE

NOWHERE = ("--url", "http://127.0.0.1:1", "topic", "list")


@pytest.mark.parametrize(
    ("command", "exit_code", "code"),
    [
        (("topic", "show", "none"), ExitCode.NOT_FOUND, "topic_not_found"),
        (("group", "show", "none", "g"), ExitCode.NOT_FOUND, "topic_not_found"),
        (("schema", "show", "none"), ExitCode.NOT_FOUND, "schema_refused"),
        (("tx", "show", "5"), ExitCode.NOT_FOUND, "transaction_unknown"),
        (("topic", "create", "a.b"), ExitCode.REFUSED, "invalid_topic_name"),
        (("topic", "list", "--url", "leveldb:/no/such"), ExitCode.NOT_FOUND, "store_not_found"),
        (NOWHERE, ExitCode.AWAY, "server_unreachable"),
        (("topic", "create", "t", "--ttl", "soon"), ExitCode.USAGE, "wrong_usage"),
        (("topic", "list", "--nothing"), ExitCode.USAGE, "wrong_usage"),
        (("--nothing", "topic", "list"), ExitCode.USAGE, "wrong_usage"),
        (("nothing",), ExitCode.USAGE, "wrong_usage"),
        (("copy", "leveldb:/no/such", "leveldb:/no/such"), ExitCode.USAGE, "wrong_usage"),
    ],
)
def test_an_error_is_json_for_programs(
    run: Run, command: tuple[str, ...], exit_code: ExitCode, code: str
) -> None:
    ended, out, err = run("--json", *command)

    assert (ended, out) == (exit_code, "")
    assert json.loads(err)["error"]["code"] == code
    told = run(*command)
    assert (told[0], told[1]) == (exit_code, "")
    assert json.loads(err)["error"]["message"] in told[2]


def test_json_after_the_command_counts_and_a_message_does_not(run: Run) -> None:
    code, _, err = run("publish", "none", "x", "--json")
    assert json.loads(err)["error"]["detail"]["topic"].endswith(":none")

    assert run("publish", "none", "--", "--json")[2].startswith("There is no topic none")
    assert code == ExitCode.NOT_FOUND


def test_ids_in_an_error_are_text(run: Run) -> None:
    error = json.loads(run("--json", "tx", "show", "5")[2])["error"]

    assert error["detail"] == {"transaction_id": "5"}


def test_other_servers_and_lost_answers() -> None:
    with FaultyServer(answer(404, b"<html>")) as server:
        assert run_command("--url", server.url, "topic", "list")[0] == ExitCode.FAILED
    with FaultyServer(answer(401, b'{"error": {"code": "credentials_required"}}')) as server:
        assert run_command("--url", server.url, "topic", "list")[0] == ExitCode.NOT_PERMITTED
    with FaultyServer(answer(504, b'{"error": {"code": "outcome_unknown"}}')) as server:
        assert run_command("--url", server.url, "topic", "create", "t")[0] == ExitCode.UNKNOWN


def test_every_error_has_a_code_by_what_a_script_does_next() -> None:
    by_code = {code: exit_code_of(error_of(code, {})) for code in CATALOGUE}

    for code, problem in CATALOGUE.items():
        match problem.status:
            case 401 | 403:
                assert by_code[code] is ExitCode.NOT_PERMITTED
            case 503:
                assert by_code[code] is ExitCode.AWAY
            case 409 | 413:
                assert by_code[code] in {ExitCode.REFUSED, ExitCode.FAILED}
    assert by_code["answer_lost"] is ExitCode.AWAY, "nothing would have changed"
    assert by_code["server_silent"] is ExitCode.UNKNOWN
    assert by_code["publish_rate_exceeded"] is ExitCode.AWAY
    assert by_code["internal"] is by_code["not_tms"] is ExitCode.FAILED


def test_the_table_in_the_docs_and_the_help_have_all_codes() -> None:
    page = Path(ROOT / "docs/session.md").read_text(encoding="utf-8")
    in_table = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}

    assert in_table == {0, *ExitCode, 130, 143}
    told = run_command("--help")[1].partition("Exit codes:")[2]
    assert {*map(int, re.findall(r"\b(\d+) \w", told))} == in_table - {143}
