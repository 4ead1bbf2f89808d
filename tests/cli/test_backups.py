"""`tms backup` on a running server: by name, listed, pruned by count and age, and failures."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import Outcome, run_command
from tests.scale import scaled, seed
from tests.servers.ftp_server import PASSWORD, ftp_server
from tests.servers.server_process import ServerProcess


@pytest.fixture(scope="module")
def backed_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    place = tmp_path_factory.mktemp("backed-up")
    folder = place / "backups"
    with ServerProcess(f"leveldb:{place / 'data'}", "--backup-folder", str(folder)) as server:
        yield server.url, folder
        assert server.stop() == 0


def names(url: str) -> list[str]:
    return [each["name"] for each in json.loads(run_command("backup", "--url", url, "--json")[1])]


def test_backups_are_taken_listed_and_pruned(backed_up: tuple[str, Path]) -> None:
    url, folder = backed_up

    def tms(*arguments: str) -> Outcome:
        return run_command("backup", *arguments, "--url", url)

    assert tms("list") == (0, "", "")
    for name in ("a", "b", "c", "list-d"):
        code, out, _ = tms(name)
        assert (code, str(folder / name) in out) == (0, True)
    assert tms("a")[0] == 4
    assert tms("take", "prune")[0] == 0
    assert names(url) == ["a", "b", "c", "list-d", "prune"]
    assert tms("prune", "--older-than", "1h")[1] == "Deleted 0 backups; kept 5.\n"
    (folder / "b/backup.json").write_text("{}")
    assert "its manifest is damaged" in tms("list")[1]
    code, _, err = tms("verify", "b")
    assert (code, "backup.json" in err) == (1, True)
    assert tms("prune", "--keep", "2")[0] == 0
    assert names(url) == ["list-d", "prune", "b"]
    assert tms("verify", "list-d")[0] == 0
    assert tms("delete", "b")[0] == 0
    assert tms("delete", "b")[0] == 3
    assert tms("../x")[0] == 4
    assert tms("prune", "--keep", "0")[0] == 2


def test_a_restore_of_a_damaged_backup_says_which_file(
    backed_up: tuple[str, Path], tmp_path: Path
) -> None:
    url, folder = backed_up
    assert run_command("backup", "damaged", "--url", url)[0] == 0
    [log] = (folder / "damaged/leveldb").glob("*.log")
    log.write_bytes(log.read_bytes() + b"x")
    code, _, err = run_command("restore", str(folder / "damaged"), str(tmp_path / "data"))
    assert (code, log.name in err) == (1, True)
    assert run_command("restore", str(folder / "none"), str(tmp_path / "data"))[0] == 3


ROUNDS = scaled(20)


def test_backups_at_a_url_outlive_killed_servers(tmp_path: Path) -> None:
    chance, store = random.Random(seed()), f"leveldb:{tmp_path / 'data'}"
    (tmp_path / "remote").mkdir()
    with ftp_server(tmp_path / "remote") as served:
        place = f"{served}/backups"
        flags = ("--backup-folder", place, "--leveldb-write-buffer-bytes", str(2**16))
        for number in range(ROUNDS):
            with ServerProcess(store, *flags) as server:
                topics = f"{server.url}/v1/namespaces/default/topics"
                httpx.put(f"{topics}/t")
                body = {"messages": [chance.randbytes(2000).hex()] * 50}
                assert httpx.post(f"{topics}/t/publish", json=body).is_success
                url = f"{server.url}/v1/backups/b{number}?wait={chance.choice((0, 0, 30))}"
                assert httpx.put(url).is_success
                server.kill()
        with ServerProcess(store, *flags) as server:
            shown = place.replace(f"ann:{PASSWORD}@", "")
            code, out, _ = run_command("backup", f"{shown}/last", "--url", server.url)
            assert (code, f"{shown}/last has" in out) == (0, True)
            assert run_command("backup", "ftp://x/last", "--url", server.url)[0] == 4
            complete = names(server.url)
            assert "last" in complete
            for name in complete:
                assert run_command("backup", "verify", name, "--url", server.url)[0] == 0
            assert run_command("backup", "prune", "--url", server.url)[0] == 0
            assert names(server.url) == ["last"]
            assert PASSWORD not in server.log
        restored = str(tmp_path / "restored")
        assert run_command("restore", f"{place}/last", restored)[0] == 0
        polled = run_command("poll", "t", "--url", f"leveldb:{restored}", "--json")[1]
        assert len(polled.splitlines()) == ROUNDS * 50
        assert run_command("restore", f"{place}/none", str(tmp_path / "none"))[0] == 3
    with ServerProcess(store, *flags) as server:
        code, _, err = run_command("backup", "b", "--url", server.url)
        assert (code, "cannot be used;" in err, PASSWORD in err) == (6, True, False)
        assert "cannot list the backups" in server.log
