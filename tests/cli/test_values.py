"""`tms publish --schema` and `tms poll --decode`, against a real server."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"string"}]}'
PROTO = 'syntax = "proto3"; message M { int64 n = 1; }'


@pytest.fixture
def files(tmp_path: Path) -> Path:
    texts = {"order.avsc": ORDER, "key.avsc": '"int"', "m.proto": PROTO, "m.json": "{}"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_values_are_published_and_shown(run: Run, files: Path) -> None:
    run("topic", "create", "values", "key_subject=values-key")
    order, key = str(files / "order.avsc"), str(files / "key.avsc")
    code, _, err = run("publish", "values", "--schema", order, '{"id":"a"}', '{"id":"b"}')
    assert (code, err) == (0, "Published 2 messages.\n")
    lines = ("publish", "values", "--schema", "latest", "--key-schema", key, "--stdin")
    assert run(*lines, "--key-separator", "|", given=b'7|{"id":"c"}\n8|{"id":"d"}\n')[0] == 0
    gone = ("--tombstone", "--key", "7", "--schema", "latest", "--key-schema", key)
    assert run("publish", "values", *gone)[0] == 0
    assert run("publish", "values", "raw")[0] == 0

    shown = [line.split("  ", 2)[2] for line in run("poll", "values", "--decode")[1].splitlines()]
    assert shown == [
        '{"id":"a"}',
        '{"id":"b"}',
        'key=7  {"id":"c"}',
        'key=8  {"id":"d"}',
        "key=7  (no payload)",
        "(damaged: it does not begin with a zero byte and a schema's id)  raw",
    ]
    told = [
        json.loads(line) for line in run("poll", "values", "--decode", "--json")[1].split("\n")[:-1]
    ]
    assert told[2]["value"] == {"id": "c"}
    assert (told[2]["key"], told[2]["schema_id"]) == (7, told[0]["schema_id"])
    assert told[4]["value"] is None
    assert (told[5]["payload"], "value" in told[5]) == ("raw", False)


def test_a_subscription_is_moved_behind_what_was_shown(run: Run, files: Path) -> None:
    run("topic", "create", "followed")
    run("publish", "followed", "--schema", str(files / "order.avsc"), '{"id":"a"}', '{"id":"b"}')
    run("subscription", "create", "followed", "s")
    asked = ("poll", "followed", "--decode", "--subscription", "s")
    assert run(*asked, "--limit", "1")[1].endswith('{"id":"a"}\n')
    assert run(*asked)[1].endswith('{"id":"b"}\n')
    assert run(*asked)[1] == ""


@pytest.mark.parametrize(
    ("file", "more"), [("m.proto", ()), ("m.json", ()), ("m.json", ("--schema-type", "json"))]
)
def test_the_type_is_what_the_name_ends_with(
    run: Run, files: Path, file: str, more: tuple[str, ...]
) -> None:
    topic = f"typed-{file.replace('.', '-')}-{len(more)}"
    run("topic", "create", topic)
    given = ("publish", topic, "--schema", str(files / file), *more, '{"n":"5"}')
    assert run(*given)[0] == 0
    assert json.loads(run("poll", topic, "--decode")[1].split("  ")[2]) == {"n": "5"}


def test_what_is_wrong_is_reported(run: Run, files: Path) -> None:
    run("topic", "create", "wrong")
    order = str(files / "order.avsc")
    code, _, err = run("publish", "wrong", "--schema", order, '{"id":"a"}', '{"id":1}')
    assert code == 4
    assert "index=1, field=id, reason=1 is not of type string" in err
    code, _, err = run("publish", "wrong", "--schema", order, '{"id":"a","id":"b"}')
    assert (code, "the name 'id' twice" in " ".join(err.split())) == (2, True)
    code, _, err = run("publish", "wrong", "--schema", str(files / "none"), "1")
    assert code == 2
    assert "none cannot be read: No such file" in err
    assert (
        "give one of AVRO"
        in run("publish", "wrong", "--schema", order, "--schema-type", "x", "1")[2]
    )
    assert "is for --schema" in run("publish", "wrong", "--schema-type", "AVRO", "1")[2]
    code, _, err = run("publish", "wrong", "--schema", order, "{")
    assert code == 4
    assert "not valid JSON" in err
    assert run("poll", "wrong")[1] == ""
