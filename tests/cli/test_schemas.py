"""`tms schema`, against a real server."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

A = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
B = (
    '{"type":"record","name":"R","fields":'
    '[{"name":"a","type":"int"},{"name":"b","type":"int","default":1}]}'
)
UNFIT = '{"type":"record","name":"R","fields":[{"name":"c","type":"int"}]}'


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, text in {"a": A, "b": B, "unfit": UNFIT}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_schemas_are_registered_shown_compared_and_deleted(run: Run, files: Path) -> None:
    code, out, _ = run("schema", "register", "orders", str(files / "a"), "--json")
    told = json.loads(out)
    assert (code, told["version"], told["schema"]) == (0, 1, A)
    assert run("schema", "check", "orders", str(files / "b"))[:2] == (0, "It fits.\n")
    assert run("schema", "register", "orders", "-", given=B.encode())[1].startswith(
        "Version 2 of orders, id "
    )
    assert ["orders", "1,", "2"] in [line.split() for line in run("schema", "list")[1].splitlines()]
    assert run("schema", "list", "ord", "--json")[1] == '[{"subject":"orders","versions":[1,2]}]\n'
    code, out, _ = run("schema", "show", "orders", "--version", "1")
    assert out.splitlines()[:2] == [f"orders version 1, id {told['id']}, AVRO", "{"]
    assert json.loads(run("schema", "show", "orders", "--json")[1])["schema"] == B
    assert json.loads(run("schema", "show", str(told["id"]), "--id", "--json")[1])["schema"] == A
    out = run("schema", "diff", "orders", "1")[1]
    assert '+      "name": "b",' in out
    assert out.endswith("It fits.\n")

    assert run("schema", "compatibility", "orders", "--set", "full")[1] == "orders: FULL\n"
    assert run("schema", "compatibility", "orders")[1] == "orders: FULL\n"
    assert run("schema", "compatibility")[1] == "default context: BACKWARD\n"
    assert run("schema", "delete", "orders", "--version", "1")[1] == (
        "Deleted softly of orders: version 1.\n"
    )
    assert "soft-deleted" in run("schema", "show", "orders", "--version", "1", "--deleted")[1]
    run("schema", "delete", "orders")
    assert run("schema", "delete", "orders", "--permanent")[1] == (
        "Deleted for good of orders: version 1, 2.\n"
    )


def test_properties_are_kept_and_shown(run: Run) -> None:
    given = ("--property", "owner=billing", "--property", "a=b=c")
    assert run("schema", "register", "owned", "-", *given, given=A.encode())[0] == 0
    assert run("schema", "show", "owned")[1].splitlines()[1:3] == ["a: b=c", "owner: billing"]
    told = json.loads(run("schema", "show", "owned", "--json")[1])
    assert told["metadata"] == {"properties": {"a": "b=c", "owner": "billing"}}
    code, out, err = run("schema", "register", "owned", "-", "--property", "x", given=A.encode())
    assert (code != 0, out) == (True, "")
    assert err.startswith("--property x: give NAME=VALUE")


def test_the_status_is_reported(run: Run) -> None:
    run("schema", "register", "stated", "-", given=A.encode())
    code, out, _ = run("registry", "status")
    assert code == 0
    assert out.startswith("active: each server writes\n")
    assert json.loads(run("registry", "status", "--json")[1])["mode"] == "active"


def test_what_does_not_fit_is_reported(run: Run, files: Path) -> None:
    run("schema", "register", "fitting", str(files / "a"))
    code, out, err = run("schema", "check", "fitting", str(files / "unfit"))
    assert (code, err) == (1, "")
    assert out.startswith("It does not fit:\n{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE'")
    code, out, err = run("schema", "register", "fitting", str(files / "unfit"))
    assert (code, out) == (4, "")
    assert err.endswith("(error code 409)\n")


@pytest.mark.parametrize(
    ("kind", "texts", "why", "line"),
    [
        ("AVRO", (A, B, UNFIT), "READER_FIELD_MISSING_DEFAULT_VALUE", '+      "name": "b",'),
        (
            "JSON",
            (
                '{"properties":{"a":{"type":"integer"}},"type":"object"}',
                '{"properties":{"a":{"type":"number"}},"type":"object"}',
                '{"properties":{"a":{"type":"string"}},"type":"object"}',
            ),
            "TYPE_CHANGED",
            '+      "type": "number"',
        ),
        (
            "PROTOBUF",
            (
                'syntax = "proto3"; message M { int32 a = 1; }',
                'syntax = "proto3"; message M { int64 a = 1; }',
                'syntax = "proto3"; message M { string a = 1; }',
            ),
            "FIELD_SCALAR_KIND_CHANGED",
            "+  int64 a = 1;",
        ),
    ],
)
def test_schemas_of_each_type_are_checked_and_compared(
    run: Run, kind: str, texts: tuple[str, str, str], why: str, line: str
) -> None:
    subject, typed = f"each-{kind}", ("--type", kind)
    old, fitting, unfit = texts
    assert run("schema", "register", subject, "-", *typed, given=old.encode())[0] == 0
    code, out, _ = run("schema", "check", subject, "-", *typed, given=unfit.encode())
    assert (code, out.startswith("It does not fit:\n")) == (1, True)
    assert why in out
    assert run("schema", "check", subject, "-", *typed, given=fitting.encode())[0] == 0
    assert run("schema", "register", subject, "-", *typed, given=fitting.encode())[0] == 0
    code, out, _ = run("schema", "diff", subject, "1")
    assert line in out.splitlines()
    assert out.endswith("It fits.\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("show", "nosuch"), "Subject 'nosuch' not found. (error code 40401)\n"),
        (("show", "x", "--id"), "x is not a valid id: with --id, give a number\n"),
        (("register", "s", "-", "--reference", "x"), "--reference x: give NAME=SUBJECT/VERSION"),
        (("compatibility", "--set", "x"), "Invalid compatibility level."),
    ],
)
def test_a_mistake_is_reported_in_a_line(run: Run, arguments: tuple[str, ...], told: str) -> None:
    code, out, err = run("schema", *arguments, given=b"{}")
    assert code != 0
    assert out == ""
    assert err.startswith(told)
