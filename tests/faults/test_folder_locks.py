"""A data folder belongs to one store of one process until that store is closed."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

import tms
from tests.faults.serving import refusal, serve
from tms.cli.failure import ExitCode
from tms.core.errors import StoreLocked
from tms.server.node import open_services


def publish_and_count(url: str) -> int:
    with tms.connect(url) as client:
        topic = client.topic("t")
        topic.publish(b"x")
        return len(list(topic.poll()))


def test_a_second_process_is_refused_and_told_who_holds_the_folder(tmp_path: Path) -> None:
    with serve(tmp_path) as holder:
        with tms.connect(holder.url) as client:
            client.topic("t").create()
        exit_code, log = refusal(tmp_path)

        assert exit_code == 1
        assert f"process {holder.pid} on {socket.gethostname()}" in log
        assert "Traceback" not in log
        assert publish_and_count(holder.url) == 1

        with pytest.raises(StoreLocked) as caught:
            tms.connect(f"leveldb:{tmp_path}")
        assert str(holder.pid) in str(caught.value)
        assert publish_and_count(holder.url) == 2
        assert holder.stop() == 0
    with tms.connect(f"leveldb:{tmp_path}") as client:
        assert len(list(client.topic("t").poll())) == 2


def test_the_folder_is_free_when_its_holder_was_killed(tmp_path: Path) -> None:
    with serve(tmp_path) as holder:
        with tms.connect(holder.url) as client:
            client.topic("t").create()
        assert publish_and_count(holder.url) == 1
        holder.kill()
    with serve(tmp_path) as server:
        assert publish_and_count(server.url) == 2


def test_a_lock_file_that_was_cleared_away_lets_nobody_in(tmp_path: Path) -> None:
    with serve(tmp_path) as holder:
        with tms.connect(holder.url) as client:
            client.topic("t").create()
        (tmp_path / "tms.lock").unlink()
        exit_code, log = refusal(tmp_path)

        assert exit_code == ExitCode.AWAY, log
        assert "Traceback" not in log
        assert publish_and_count(holder.url) == 1


@pytest.mark.parametrize(
    "other_name",
    [
        "same",
        pytest.param("link", marks=pytest.mark.slow),
        pytest.param("dots", marks=pytest.mark.slow),
    ],
)
def test_a_second_store_in_the_same_process_is_refused(tmp_path: Path, other_name: str) -> None:
    folder = tmp_path / "data"
    link = tmp_path / "link"
    link.symlink_to(folder)
    other = {"same": folder, "link": link, "dots": tmp_path / "x" / ".." / "data"}[other_name]
    (tmp_path / "x").mkdir()

    async def open_twice() -> None:
        holder = await open_services(f"leveldb:{folder}")
        try:
            with pytest.raises(StoreLocked) as caught:
                await open_services(f"leveldb:{other}")
            assert f"process {os.getpid()}" in str(caught.value)
            assert "which is this process" in str(caught.value)
            exit_code, log = await asyncio.to_thread(refusal, folder)
            assert exit_code == 1  # the failed opening did not drop the holder's lock
            assert f"process {os.getpid()}" in log
            assert "which is this process" not in log
        finally:
            await holder.close()
        again = await open_services(f"leveldb:{other}")
        await again.close()

    asyncio.run(open_twice())
