"""CDAP's own Java client (6.1.4) works against this server, unchanged.

Its jars come from Maven. A machine that has no JDK and no Maven is the one reason to skip: this is
the only test that needs them, and what the client sends is also tested byte by byte in `tests/api`.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

import tms
from tests.servers.server_process import ServerProcess
from tms.core.values.shards import ShardBy

HERE = Path(__file__).parent
DOWNLOAD_S_MAX = 600
RUN_S_MAX = 120
WITH_KEYS = [
    tms.Message(b"alone"),
    tms.Message(b"keyed", b"k"),
    tms.Message(b"headers", None, {"h": b"v"}),
    tms.tombstone(b"k"),
]
OPENED = ("java.lang", "java.util", "java.nio", "sun.nio.ch", "java.net")
"""The options that libraries of that age need on a newer JDK."""


def run(*command: str, seconds: float) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of the compiled client."""
    tmp_path = tmp_path_factory.mktemp("classes")
    missing = [tool for tool in ("mvn", "javac", "java") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"CDAP's client needs {', '.join(missing)}: apt-get install maven default-jdk")
    listing = tmp_path / "class-path"
    run(
        *("mvn", "-B", "-q", "-f", str(HERE / "pom.xml")),
        *("dependency:build-classpath", f"-Dmdep.outputFile={listing}"),
        seconds=DOWNLOAD_S_MAX,
    )
    jars = listing.read_text()
    source = str(HERE / "CdapClient.java")
    run("javac", "-nowarn", "-cp", jars, "-d", str(tmp_path), source, seconds=RUN_S_MAX)
    return f"{tmp_path}:{jars}"


@pytest.mark.slow
@pytest.mark.parametrize("shard_by", [None, ShardBy.TOPIC], ids=["one shard", "by topic"])
def test_cdaps_java_client_works_unchanged(
    classes: str, tmp_path: Path, shard_by: ShardBy | None
) -> None:
    flags = ("--topic-info", "flat", "--transactions", "foreign")
    store = f"leveldb:{tmp_path / 'data'}" if shard_by is None else "memory:"
    with ServerProcess(store, *flags, shard_by=shard_by) as server:
        with tms.connect(server.url, "shared") as client:
            keyed = client.topic("keyed")
            keyed.create()
            keyed.publish(WITH_KEYS)
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
        told = run(
            "java", *opened, "-cp", classes, "CdapClient", str(server.port), seconds=RUN_S_MAX
        )
        with tms.connect(server.url, "shared") as client:
            found = [message._replace(id=b"") for message in client.topic("keyed").poll()]

    assert told.splitlines()[-1] == "all held"
    from_java = [tms.Message(b"from Java"), tms.Message(b"stored")]
    assert found == [*WITH_KEYS, *from_java, *from_java]


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("javac") is None, reason="needs a JDK: apt-get install default-jdk"
)
def test_the_jdks_own_client_publishes_and_polls(tmp_path: Path) -> None:
    with ServerProcess(f"leveldb:{tmp_path / 'data'}") as server:
        told = run("java", str(HERE / "JdkClient.java"), str(server.port), seconds=RUN_S_MAX)

    assert told.splitlines()[-1] == "all held"
