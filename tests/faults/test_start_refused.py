"""A server that cannot start says why in a line, with exit code 1 and no traceback."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import tms
from tests.faults.serving import refusal, serve


def mount(*arguments: str | Path) -> bool:
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder with data that cannot be written, not even by root, if the system allows that."""
    folder = tmp_path / "data"
    with tms.connect(f"leveldb:{folder}") as client:
        client.topic("t").create()
    if os.geteuid():
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)
        return
    if not all(mount(*how, folder) for how in (("--bind", folder), ("-o", "remount,ro,bind"))):
        pytest.skip("root that may not mount file systems")
    yield folder
    subprocess.run(["umount", folder], check=True)


def check_refusal(folder: Path, *said: str) -> None:
    exit_code, log = refusal(folder)

    assert exit_code == 1, log
    assert "Traceback" not in log
    for part in (str(folder), *said):
        assert part in log


def test_a_read_only_folder(read_only: Path) -> None:
    check_refusal(read_only, "The data folder cannot be used")


def test_a_folder_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    check_refusal(tmp_path / "file" / "data", "The data folder cannot be used", "Not a directory")


def test_a_format_of_a_later_version(tmp_path: Path) -> None:
    tmp_path.joinpath("format.json").write_text(json.dumps({"format": 99}))

    check_refusal(tmp_path, "does not know", "found=99")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        *(
            pytest.param(text, marks=pytest.mark.slow)
            for text in ("", "[]", '{"format": null}', '{"format": []}')
        ),
    ],
)
def test_a_format_file_that_is_damaged(tmp_path: Path, text: str) -> None:
    tmp_path.joinpath("format.json").write_text(text)

    check_refusal(tmp_path, "does not know")


def test_a_taken_port_leaves_the_folder_in_order(tmp_path: Path) -> None:
    with serve(tmp_path / "a") as holder, serve(tmp_path / "b", port=holder.port) as second:
        assert second.wait() == 1
        assert f"127.0.0.1:{holder.port}" in second.log
        assert "Traceback" not in second.log
    with serve(tmp_path / "b") as server:
        assert server.url
