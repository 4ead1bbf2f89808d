"""`tms metadata` on a store on this machine's disk, and what it shows of a server's namespaces."""

import asyncio
import json
from pathlib import Path

import pytest

import tms
from tests.cli.conftest import Outcome, run_command
from tests.servers.server_process import ServerProcess
from tests.waiting import in_time, turns
from tms.cli.metadata import follow
from tms.cli.target import Target
from tms.metadata.host import MetadataHost


class Metadata:
    """The commands on one store."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, verb: str, *arguments: str, given: bytes | None = None) -> Outcome:
        return run_command("metadata", verb, "--store", self.url, *arguments, given=given)

    def version(self, path: str) -> int:
        version: int = json.loads(self("get", path, "--json")[1])["version"]
        return version


@pytest.fixture
def metadata(tmp_path: Path) -> Metadata:
    return Metadata(f"leveldb:{tmp_path / 'data'}")


def test_values_are_put_shown_listed_and_deleted(metadata: Metadata) -> None:
    code, out, _ = metadata("put", "/a/b", "one")
    assert code == 0
    assert out.startswith("/a/b: version 0, modified 2")
    metadata("put", "/a/b", "two")
    metadata("put", "/a/c/d", "three")

    headline, value = metadata("get", "/a/b")[1].splitlines()
    assert (headline.partition(", ")[0], value) == ("/a/b: version 1", "two")
    heads, b, c = metadata("ls", "/a")[1].splitlines()
    assert heads.split() == ["NAME", "VERSION", "BYTES", "MODIFIED"]
    assert b.split()[:3] == ["b", "1", "3"]
    assert c.split() == ["c", "-", "-", "-"]
    assert json.loads(metadata("ls", "/a", "--json")[1]) == [
        {"name": "b", "version": 1},
        {"name": "c", "version": None},
    ]
    assert metadata("ls", "/a/")[2].startswith("A path starts with /")
    assert json.loads(metadata("ls", "--json")[1]) == [{"name": "a", "version": None}]

    assert metadata("rm", "/a/b")[:2] == (0, "Deleted /a/b.\n")
    assert metadata("get", "/a/b")[::2] == (3, "There is no value at this path. (path=/a/b)\n")
    assert metadata("rm", "-r", "/a")[0] == 0
    assert metadata("ls") == (0, "", "")
    assert metadata("ls", "--json")[1] == "[]\n"


def test_expected_versions_are_compared(metadata: Metadata) -> None:
    metadata("put", "/a", "one", "--new")

    assert metadata("put", "/a", "two", "--new")[0] == 4
    assert metadata("put", "/a", "two", "--version", "1")[0] == 4
    assert metadata("put", "/a", "two", "--version", "0")[0] == 0
    assert metadata("rm", "/a", "--version", "0")[2].startswith("The value at this path does")
    assert metadata.version("/a") == 1
    assert metadata("rm", "/a", "--version", "1")[0] == 0


def test_bytes_come_from_a_file_or_the_input(metadata: Metadata, tmp_path: Path) -> None:
    file = tmp_path / "value"
    file.write_bytes(b"\xff\x00")
    metadata("put", "/a", "--file", str(file))
    metadata("put", "/b", "--file", "-", given=b"from input")

    assert json.loads(metadata("get", "/a", "--json")[1])["value"] == {"base64": "/wA="}
    assert metadata("get", "/a")[1].endswith("\nbase64 /wA=\n")
    assert metadata("get", "/b")[1].endswith("\nfrom input\n")
    file.write_bytes(bytes(1_000_001))
    assert metadata("put", "/a", "--file", str(file))[2].startswith("The value is over the cap")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("put", "/a"), "give either VALUE or --file"),
        (("put", "/a", "x", "--file", "-"), "give either VALUE or --file"),
        (("put", "/a", "x", "--new", "--version", "1"), "--new and --version contradict"),
        (("put", "/a", "--file", "/does/not/exist"), "No such file"),
        (("rm", "/a", "-r", "--version", "1"), "--recursive and --version contradict"),
        (("rm", "/a", "--version", "-1"), "Invalid value for '--version'"),
    ],
)
def test_wrong_usage_is_reported(
    metadata: Metadata, arguments: tuple[str, ...], reason: str
) -> None:
    code, out, err = metadata(*arguments)

    assert (code, out) == (2, "")
    assert reason in " ".join(err.replace("│", " ").split())


def test_a_url_that_names_no_store_is_reported() -> None:
    code, _, err = run_command("metadata", "ls", "--store", "nowhere")

    assert code == 2
    assert "there is no metadata store at 'nowhere'" in " ".join(err.replace("│", " ").split())


def test_the_settings_of_namespaces_are_there(tmp_path: Path) -> None:
    metadata = Metadata(f"leveldb:{tmp_path / 'data'}")
    with tms.connect(metadata.url) as client:
        client.namespaces.declare("shop", tms.NamespaceSettings(ttl_s_max=5))

    assert metadata("get", "/namespaces/shop")[1].endswith('\n{"ttl_s_max":5}\n')
    metadata("put", "/namespaces/shop", '{"ttl_s_max": 6}')
    with tms.connect(metadata.url) as client:
        assert client.namespaces.namespace("shop").rules.ttl_s_max == 6


def test_a_folder_that_a_server_has_open_is_reported(tmp_path: Path) -> None:
    url = f"leveldb:{tmp_path / 'data'}"
    with ServerProcess(url) as server:
        assert server.url
        code, _, err = Metadata(url)("ls")
        assert server.stop() == 0

    assert code == 1
    assert err.startswith("The data folder is open already.")


@pytest.mark.anyio
async def test_watch_reports_each_change_with_its_version(
    capsys: pytest.CaptureFixture[str],
) -> None:
    host = MetadataHost()
    watching, writing = host.open_session(), host.open_session()

    async def change() -> None:
        await writing.put("/b", b"not below")
        await writing.put("/a", b"one")
        await writing.put("/a", b"two")
        await writing.delete("/a")
        host.disconnect(watching)
        host.reconnect(watching)
        await writing.put("/a/b", b"three")

    for as_json in (False, True):
        target = Target("", "default", as_json)
        following = asyncio.create_task(follow(target, watching, "/a", 5))
        await turns()
        await change()
        async with in_time():
            await following
        await writing.delete_recursive("/a")

    lines = capsys.readouterr().out.splitlines()
    assert lines[:7] == [
        "created                 -  /a",
        "modified                -  /a",
        "deleted                 -  /a",
        "- connection lost",
        "- reconnected",
        "created                 0  /a/b",
        "children changed        -  /a",
    ]
    assert [json.loads(line) for line in lines[-2:]] == [
        {"change": "created", "path": "/a/b", "version": 0},
        {"change": "children changed", "path": "/a", "version": None},
    ]
