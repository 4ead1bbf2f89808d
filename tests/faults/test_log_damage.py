"""A log torn by a crash is opened with everything acknowledged; a damaged one is refused."""

import asyncio
import copy
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import tms.aio
from tables.leveldb_log import BLOCK_BYTES, HEAD_BYTES, records_of
from tests.faults.ledger import Ledger
from tests.faults.load import Load, check_log
from tests.faults.serving import refusal, serve
from tests.scale import scaled
from tms.core.errors import TmsError

TOPIC = "log"
SEED = 20_260_801


async def publish_some(url: str, ledger: Ledger, requests: int) -> None:
    async with await tms.aio.connect(url) as client:
        await client.topic(TOPIC).create()
    async with Load(url, TOPIC, ledger, random.Random(SEED), publishers=3) as load:
        await load.until_acknowledged(requests)


class Killed(NamedTuple):
    """The data folder of a server that was killed, and what it had acknowledged."""

    folder: Path
    ledger: Ledger


@pytest.fixture(scope="module")
def killed_once(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    killed = Killed(tmp_path_factory.mktemp("killed") / "data", Ledger())
    with serve(killed.folder) as server:
        asyncio.run(publish_some(server.url, killed.ledger, 60))
        asyncio.run(check_log(server.url, TOPIC, killed.ledger, settled=True))
        server.kill()
    return killed


@pytest.fixture
def killed(killed_once: Killed, tmp_path: Path) -> Killed:
    """A copy that the test may damage."""
    shutil.copytree(killed_once.folder, tmp_path / "data")
    return Killed(tmp_path / "data", copy.deepcopy(killed_once.ledger))


def check_after_restart(killed: Killed) -> None:
    with serve(killed.folder) as server:
        asyncio.run(check_log(server.url, TOPIC, killed.ledger, settled=True))


def log_of(killed: Killed) -> Path:
    """Return the log that LevelDB wrote last."""
    logs = (killed.folder / "leveldb").glob("[0-9]*.log")
    return max(logs, key=lambda path: int(path.stem))


def append_part_of_the_last_record(log: Path, part: Callable[[bytes], bytes]) -> None:
    data = log.read_bytes()
    last = list(records_of(data))[-1]
    record, room = data[last.start : last.stop], -len(data) % BLOCK_BYTES
    if room < len(record):  # LevelDB writes no record over the end of a block
        data += bytes(room)
    log.write_bytes(data + part(record))


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(lambda record: record[:1], id="a byte of its head", marks=SLOW),
        pytest.param(lambda record: record[:HEAD_BYTES], id="its head"),
        pytest.param(lambda record: record[: len(record) // 2], id="half of it", marks=SLOW),
        pytest.param(lambda record: record[:-2], id="all but two bytes", marks=SLOW),
        pytest.param(lambda record: record[:-1], id="all but a byte"),
        pytest.param(lambda record: bytes(50) + record[50:], id="all but its beginning"),
    ],
)
def test_a_torn_last_record_is_dropped(killed: Killed, part: Callable[[bytes], bytes]) -> None:
    append_part_of_the_last_record(log_of(killed), part)

    check_after_restart(killed)


def test_a_last_record_that_goes_over_into_zeros_is_refused(killed: Killed) -> None:
    """LevelDB cannot distinguish it from damage, and only LevelDB should write into its file."""
    log = log_of(killed)
    whole = log.read_bytes()
    append_part_of_the_last_record(log, lambda record: record[:50] + bytes(len(record)))

    check_refused_as_corrupt(killed.folder)

    log.write_bytes(whole)
    check_after_restart(killed)


@pytest.mark.parametrize(
    "zeros", [pytest.param(3, marks=SLOW), pytest.param(4096, marks=SLOW), 3 * BLOCK_BYTES]
)
def test_zeros_behind_the_last_record_are_dropped(killed: Killed, zeros: int) -> None:
    with log_of(killed).open("ab") as out:
        out.write(bytes(zeros))

    check_after_restart(killed)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x40
    path.write_bytes(data)


def check_refused_as_corrupt(folder: Path) -> None:
    exit_code, log = refusal(folder)

    assert exit_code == 1, log
    assert "Stored bytes are damaged" in log
    assert "reason=Corruption: " in log
    assert str(folder) in log
    assert "Traceback" not in log


@pytest.mark.parametrize(
    "where", [pytest.param(0.0, marks=SLOW), 0.3, pytest.param(0.9, marks=SLOW)]
)
def test_damage_within_the_log_is_refused_by_name(killed: Killed, where: float) -> None:
    log = log_of(killed)
    records = list(records_of(log.read_bytes()))
    damaged = records[int(where * len(records))]
    flip(log, damaged.start + HEAD_BYTES + 3)

    check_refused_as_corrupt(killed.folder)
    check_refused_as_corrupt(killed.folder)  # nothing was repaired or dropped in the meantime

    flip(log, damaged.start + HEAD_BYTES + 3)
    check_after_restart(killed)


def test_a_missing_file_is_refused_by_name(killed: Killed) -> None:
    with serve(killed.folder) as server:  # opening it turns the log into a table
        assert server.url
        server.kill()
    hidden = killed.folder / "hidden"
    files = ("leveldb/CURRENT", "leveldb/[0-9]*.log", "leveldb/*.ldb", "leveldb")
    for lost in random.sample(files, scaled(len(files), 2)):
        path = next(killed.folder.glob(lost))
        path.rename(hidden)

        exit_code, log = refusal(killed.folder)
        assert exit_code == 1, log
        assert "A file of the store is missing or too short: restore the whole data folder" in log
        assert f"file={path}" in log
        assert "Traceback" not in log

        hidden.rename(path)
    check_after_restart(killed)


def test_damage_in_a_table_is_reported_and_not_handed_out(killed: Killed) -> None:
    with serve(killed.folder) as server:  # opening it turns the log into a table
        assert server.url
        server.kill()
    table = max((killed.folder / "leveldb").glob("*.ldb"), key=lambda path: path.stat().st_size)
    flip(table, table.stat().st_size // 3)

    with serve(killed.folder) as server:
        with pytest.raises(TmsError) as caught:
            asyncio.run(check_log(server.url, TOPIC, killed.ledger, settled=True))
        assert caught.value.problem.code in ("store_corrupt", "outcome_unknown")
        assert server.stop() == 0
