"""The disk space that a store uses, and the space left: measured, and shown as metrics."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry

import tms
from tables.room import RoomMetrics, room_of, want_of_room
from tests.servers.server_process import ServerProcess
from tms.core.values.room import Room

MIB = 1024 * 1024
OTHERS_MIB = 512
"""Other programs write to the disk in the meantime."""
LOOKS = 3_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files of 1,000 bytes."""
    folder = tmp_path / "data"
    (folder / "leveldb").mkdir(parents=True)
    (folder / "format.json").write_bytes(bytes(300))
    (folder / "leveldb/000001.log").write_bytes(bytes(700))
    return folder


def told(registry: CollectorRegistry) -> Room | None:
    used = registry.get_sample_value("tms_store_bytes")
    free = registry.get_sample_value("tms_disk_free_bytes")
    assert (used is None) is (free is None)
    return None if used is None or free is None else Room(int(used), int(free))


def test_all_files_count_and_folders_do_not(folder: Path) -> None:
    (folder / "empty").mkdir()

    room = room_of(folder)

    assert room.used_bytes == 1_000
    assert abs(room.free_bytes - shutil.disk_usage(folder).free) < OTHERS_MIB * MIB


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        room_of(tmp_path / "nosuch")


COME_AND_GO = """
import pathlib, sys
path = pathlib.Path(sys.argv[1])
while True:
    path.write_bytes(bytes(100))
    path.unlink()
"""


def test_files_that_come_and_go_in_the_meantime_cause_no_error(folder: Path) -> None:
    passing = folder / "leveldb/000002.ldb"
    process = subprocess.Popen([sys.executable, "-c", COME_AND_GO, passing])
    try:
        found = {room_of(folder).used_bytes for _ in range(LOOKS)}
    finally:
        process.kill()
        process.wait()
    assert found <= {1_000, 1_100}


def test_metrics_are_those_of_the_last_look(folder: Path) -> None:
    registry = CollectorRegistry()
    metrics = RoomMetrics(registry, folder)
    assert told(registry) is None
    metrics.refresh()
    first = told(registry)
    assert first is not None
    assert first.used_bytes == 1_000
    assert first.free_bytes > 0
    (folder / "leveldb/000002.ldb").write_bytes(bytes(50))
    assert told(registry) == first
    metrics.refresh()
    second = told(registry)
    assert second is not None
    assert second.used_bytes == 1_050

    shutil.rmtree(folder)
    metrics.refresh()
    assert told(registry) is None  # rather than the last value


def test_what_a_start_needs_is_said_only_if_there_is_less(folder: Path) -> None:
    free_bytes = room_of(folder).free_bytes

    assert want_of_room(folder, 64 * MIB if free_bytes > 64 * MIB else 0) == ""
    said = want_of_room(folder, free_bytes + 2 * OTHERS_MIB * MIB)
    assert said.startswith("; a start may need ")
    assert said.endswith(" MiB are free")


def test_a_server_reports_the_room_of_its_store(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with ServerProcess(f"leveldb:{folder}") as server, tms.connect(server.url) as client:

        def used() -> int:
            lines = httpx.get(f"{server.url}/metrics").text.splitlines()
            [value] = [line.split()[1] for line in lines if line.startswith("tms_store_bytes ")]
            [free] = [line.split()[1] for line in lines if line.startswith("tms_disk_free_bytes ")]
            assert float(free) > 0
            return int(float(value))

        before = used()
        client.topic("orders").create()
        client.topic("orders").publish([os.urandom(MIB) for _ in range(3)])
        assert before + 3 * MIB <= used() <= room_of(folder).used_bytes
