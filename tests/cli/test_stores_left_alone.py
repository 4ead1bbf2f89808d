"""No command creates a store unless asked to, and no command that reads a store changes it.

A table lists all commands, so a new command has to be added to it.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tables.leveldb_binding import plyvel
from tables.leveldb_layout import PREFIXES
from tables.store import TRANSACTION
from tests.cli.all_commands import ALL
from tests.cli.conftest import run_command
from tests.cli.examples_of_commands import (
    LOOKING,
    NOTHING_TO_SAY,
    OF_DEAD_LETTERS,
    OF_STORES,
    READING,
    READING_GROUPS,
    SERVERS,
    WATCHING,
    WRITING_BESIDE,
)
from tests.tables.folders import recorded_of

CREATING: set[tuple[str, ...]] = {
    ("topic", "create"),
    ("metadata", "put"),
    ("serve",),
    ("copy",),
    ("restore",),
}
OTHERS: set[tuple[str, ...]] = {
    ("config",),
    ("doctor",),
    ("version",),
    *(("auth", name) for name in ("init", "certificate", "password")),
    *(("spark", name) for name in ("archive", "replay", "transform", "stats")),
    *(("init",), ("prune",), ("spark", "prune"), ("cluster", "release")),
}
"""Without a store in a folder; the last row is of HBase's."""


def test_the_table_has_all_commands() -> None:
    groups = {command[:-1] for command in ALL if command} - {("cluster",), ("clock",)}
    there = set(ALL) - groups
    told = {
        max((arguments[:n] for n in range(4) if arguments[:n] in there), key=len, default=arguments)
        for arguments in (*OF_STORES, *SERVERS)
    }

    assert told | CREATING | OTHERS == there


class Filled(NamedTuple):
    """A store of an earlier format that an opening could change, and files for commands to read."""

    folder: Path
    words: dict[str, str]
    """Values for placeholders in the table, which are known only at run time."""

    @property
    def url(self) -> str:
        return f"leveldb:{self.folder}"

    def arguments(self, command: tuple[str, ...]) -> list[str]:
        return [self.words.get(word, word) for word in command]

    def content(self) -> tuple[object, dict[bytes, bytes]]:
        """Return the recorded format, and all rows."""
        with plyvel.DB(str(self.folder / "leveldb")) as handle:
            return recorded_of(self.folder), dict(handle)


_PUT_VALUES = """
import asyncio, os, sys
from tms.server.stores import open_metadata

async def put():
    store = await open_metadata(sys.argv[1])
    await store.put("/kept", b"value")
    await store.put("/gone", b"with its process", ephemeral=True)
    os._exit(0)

asyncio.run(put())
"""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    place = tmp_path_factory.mktemp("filled")
    (place / "schema").write_text('{"type": "string"}')
    (place / "lines").write_text('{"topic": "t", "message": "x"}\n')
    (place / "exported").write_text('{"payload": "x"}\n')
    words = {
        "FILE": str(place / "schema"),
        "LINES": str(place / "lines"),
        "EXPORTED": str(place / "exported"),
    }
    filled = Filled(place / "data", words)

    def tms(*arguments: str) -> str:
        code, out, err = run_command("--url", filled.url, *filled.arguments(arguments))
        assert code == 0, err
        return out.strip()

    tms("topic", "create", "t")
    tms("publish", "t", "one", "two")
    tms("subscription", "create", "t", "s")
    tms("namespace", "set", "shop", "--ttl-max", "1d")
    tms("schema", "register", "t-value", "FILE")
    words["TX"] = tms("tx", "start", "--timeout", "1")
    subprocess.run([sys.executable, "-c", _PUT_VALUES, filled.url], check=True)
    (filled.folder / "format.json").write_text('{"format": 2}')
    return filled


@pytest.mark.parametrize("command", [*READING, *LOOKING], ids=" ".join)
def test_what_reads_changes_nothing(filled: Filled, command: tuple[str, ...]) -> None:
    before = filled.content()
    where = "--url" if command in READING else "--store"

    code, out, err = run_command(*filled.arguments(command), where, filled.url)

    assert (code, err) == (0, ""), err
    assert out or command in NOTHING_TO_SAY
    assert filled.content() == before


def test_what_reads_a_group_changes_nothing(filled: Filled, tmp_path: Path) -> None:
    """It does not even record that a take has leased a message."""
    grouped = filled._replace(folder=shutil.copytree(filled.folder, tmp_path / "data"))
    assert run_command("group", "create", "t", "g", "--url", grouped.url)[0] == 0
    before = grouped.content()

    for command in READING_GROUPS:
        code, out, err = run_command(*command, "--url", grouped.url)
        if command in OF_DEAD_LETTERS:
            assert (code, bool(err)) in ((0, False), (2, True)), command
            continue
        assert (code, err) == (0, ""), command
        assert "g" in out or command[1] in ("members", "open", "scheduled")
    assert grouped.content() == before


def test_a_store_without_transactions_is_read_as_it_is(filled: Filled, tmp_path: Path) -> None:
    """The first opening for writing would store the first snapshot."""
    older = filled._replace(folder=shutil.copytree(filled.folder, tmp_path / "data"))
    with plyvel.DB(str(older.folder / "leveldb")) as handle:
        for key in list(handle.iterator(prefix=PREFIXES[2][TRANSACTION], include_value=False)):
            handle.delete(key)
    before = older.content()

    for command in ("poll", "t"), ("topic", "list"), ("tx", "list"):
        assert run_command(*command, "--url", older.url)[::2] == (0, "")
    assert older.content() == before


def test_a_copy_leaves_its_source(filled: Filled, tmp_path: Path) -> None:
    source = filled._replace(folder=shutil.copytree(filled.folder, tmp_path / "data"))
    run_command("tx", "invalidate", source.words["TX"], "--url", source.url)
    (source.folder / "format.json").write_text('{"format": 2}')
    before = source.content()

    code, _, err = run_command("copy", source.url, f"leveldb:{tmp_path / 'copy'}")

    assert (code, err) == (0, "")
    assert source.content() == before
    assert recorded_of(tmp_path / "copy") == {"format": 3, "layout": 2}


def test_what_writes_raises_the_format(filled: Filled, tmp_path: Path) -> None:
    for number, command in enumerate((("publish", "t", "x"), ("metadata", "rm", "/kept"))):
        folder = shutil.copytree(filled.folder, tmp_path / str(number))
        where = "--store" if command in WRITING_BESIDE else "--url"

        assert run_command(*command, where, f"leveldb:{folder}")[0] == 0
        assert recorded_of(folder) == {"format": 3, "layout": 2}


@pytest.mark.parametrize(
    "command",
    [*OF_STORES, *SERVERS],
    ids=" ".join,
)
def test_if_there_is_no_store_none_is_made(
    filled: Filled, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "there").mkdir()
    for name in ("typo", "there"):
        check_refused_without_a_store(tmp_path / name, command, filled.arguments(command))

    assert list(tmp_path.rglob("*")) == [tmp_path / "there"]


def check_refused_without_a_store(
    folder: Path, command: tuple[str, ...], arguments: list[str]
) -> None:
    is_beside = command in (*LOOKING, WATCHING, *WRITING_BESIDE)
    where = "--store" if is_beside else "--url"

    code, out, err = run_command(*arguments, where, f"leveldb:{folder}")

    assert out == ""
    if command in SERVERS:
        assert code == 2
    elif command[0] == "debug":
        assert code == 2
        assert "there is no store in" in err
    else:
        assert code == 3
        assert err.startswith("There is no store in this folder: check the path, or create")
        assert f"(folder={folder})" in err
        assert err.count("\n") == 1


def test_a_copy_of_no_store_makes_none(tmp_path: Path) -> None:
    code, out, err = run_command("copy", f"leveldb:{tmp_path}/typo", f"leveldb:{tmp_path}/copy")

    assert (code, out, err) == (2, "", f"there is no store in {tmp_path}/typo\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [("topic", "list"), ("debug", "tables"), ("publish", "t", "x")])
def test_a_lost_file_is_named_by_every_command(
    filled: Filled, tmp_path: Path, command: tuple[str, ...]
) -> None:
    folder = shutil.copytree(filled.folder, tmp_path / "data")
    (folder / "leveldb" / "CURRENT").unlink()
    where = "--store" if command in LOOKING else "--url"

    code, out, err = run_command(*command, where, f"leveldb:{folder}")

    assert (code, out) == (1, "")
    assert err.startswith(
        "A file of the store is missing or too short: restore the whole data folder"
    )
    assert f"file={folder}/leveldb/CURRENT" in err
    assert err.count("\n") == 1
