"""Starts and stops real HBase servers on this machine, for tests and for trying things out.

    dev/hbase/start FOLDER [--cluster] [--port PORT]
    dev/hbase/stop FOLDER [--remove]

Without `--cluster`, HBase is one JVM (master, region server and ZooKeeper), which starts faster
and runs slower; with it, ZooKeeper, a master and two region servers are processes of their own.
Before both stand two Thrift gateways: the one that TMS talks to, and one of Thrift's second
version, which alone can create tables in several regions (`tms init --admin`).

`FOLDER/servers.json` names each process by its id; stopping ends those and no others. Each has its
log in `FOLDER/logs`. The jars come from Maven, once (dev/hbase/pom.xml).
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import happybase
from thriftpy2.thrift import TException

from dev.hbase.configuration import (
    FAST_START,
    HOST,
    JAVA_FLAGS,
    LOG4J,
    common_site,
    site_xml,
    zoo_cfg,
)

POM = Path(__file__).with_name("pom.xml")
STATE = "servers.json"
START_S_MAX = 120
STOP_S_MAX = 20
DOWNLOAD_S_MAX = 900
_LOG_LINES = 15
_LOOKS = 10

_MASTER = "org.apache.hadoop.hbase.master.HMaster"
_REGION_SERVER = "org.apache.hadoop.hbase.regionserver.HRegionServer"
_ZOOKEEPER = "org.apache.zookeeper.server.ZooKeeperServerMain"
_THRIFT = "org.apache.hadoop.hbase.thrift.ThriftServer"
_THRIFT2 = "org.apache.hadoop.hbase.thrift2.ThriftServer"


class CannotStart(Exception):
    """Raised when servers cannot be started; its text says what to do."""


@dataclass
class Servers:
    """The servers of one folder, as `servers.json` has them."""

    folder: str
    gateway_port: int
    admin_port: int
    commands: dict[str, list[str]] = field(default_factory=dict)
    """By the process's name."""
    pids: dict[str, int] = field(default_factory=dict)

    @property
    def gateway(self) -> str:
        """HOST:PORT of the gateway that TMS talks to."""
        return f"{HOST}:{self.gateway_port}"

    @property
    def admin(self) -> str:
        """HOST:PORT of the gateway that creates tables in several regions."""
        return f"{HOST}:{self.admin_port}"

    def start(self, name: str) -> None:
        """Start the process `name` of `commands`."""
        log = str(Path(self.folder, "logs", f"{name}.log"))
        # Not subprocess: these outlive the process that starts them.
        self.pids[name] = os.posix_spawnp(
            self.commands[name][0],
            self.commands[name],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        self._save()

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """End one process, and wait until it has ended."""
        pid = self.pids.pop(name)
        if not self._is_ours(pid):
            return
        os.kill(pid, how)
        deadline = time.monotonic() + STOP_S_MAX
        while self._is_ours(pid):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def stop(self) -> None:
        """End all processes, those nearest to clients first."""
        for name in reversed(list(self.pids)):
            self.kill(name, signal.SIGTERM if "gateway" in name else signal.SIGKILL)
        Path(self.folder, STATE).unlink(missing_ok=True)

    def running(self) -> dict[str, int]:
        """Return the processes that run."""
        return {name: pid for name, pid in self.pids.items() if self._is_ours(pid)}

    def _is_ours(self, pid: int) -> bool:
        """Whether `pid` runs, and is one of these rather than another that got its number."""
        for _ in range(_LOOKS):
            with suppress(ChildProcessError):  # not our child: then it is no zombie of ours either
                os.waitpid(pid, os.WNOHANG)  # at each look: it may end between two
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                return False
            if command:
                return self.folder.encode() in command
            time.sleep(0.01)  # it has just been started, or is ending and its parent has not seen
        return False

    def _save(self) -> None:
        Path(self.folder, STATE).write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    def wait_until_ready(self) -> None:
        """Return when a put through the gateway is acknowledged. Raises `CannotStart`."""
        deadline = time.monotonic() + START_S_MAX
        said = ""
        while time.monotonic() < deadline:
            dead = set(self.pids) - set(self.running())
            if dead:
                raise CannotStart(f"{self._ends_of(dead)}\n{', '.join(sorted(dead))} ended.")
            try:
                _put_once(self.gateway_port)
                socket.create_connection((HOST, self.admin_port), 5).close()
            except (TException, OSError) as error:
                said = str(error)[:300]
                time.sleep(0.3)
            else:
                return
        raise CannotStart(
            f"{self._ends_of(self.pids)}\nNo put was acknowledged within {START_S_MAX} s: {said}"
        )

    def _ends_of(self, names: Iterable[str]) -> str:
        ends = []
        for name in names:
            log = Path(self.folder, "logs", f"{name}.log")
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            ends += [f"--- {log}", *lines[-_LOG_LINES:]]
        return "\n".join(ends)


def _put_once(port: int) -> None:
    connection = happybase.Connection(HOST, port, timeout=30_000)
    try:
        if b"ready" not in connection.tables():
            connection.create_table("ready", {"d": {}})
        connection.table("ready").put(b"k", {b"d:v": b""})
    finally:
        connection.close()


def class_path() -> str:
    """Return the jars, from Maven; the first time it downloads them. Raises `CannotStart`."""
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if missing:
        raise CannotStart(
            f"HBase needs {' and '.join(missing)}: apt-get install default-jdk-headless maven"
        )
    cache = Path.home() / ".cache" / "tms-hbase-class-path"
    if cache.exists() and cache.stat().st_mtime > POM.stat().st_mtime:
        jars = cache.read_text(encoding="utf-8")
        if all(Path(jar).exists() for jar in jars.split(":")):
            return jars
    cache.parent.mkdir(parents=True, exist_ok=True)
    listing = cache.with_suffix(f".{os.getpid()}")
    done = subprocess.run(
        [
            *("mvn", "-B", "-q", "-f", str(POM), "dependency:build-classpath"),
            f"-Dmdep.outputFile={listing}",
        ],
        capture_output=True,
        text=True,
        timeout=DOWNLOAD_S_MAX,
        check=False,
    )
    if done.returncode:
        raise CannotStart(f"{done.stdout[-2000:]}{done.stderr[-2000:]}\nMaven has no jars for it.")
    listing.replace(cache)
    return cache.read_text(encoding="utf-8")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise CannotStart(
                f"Port {port} is taken ({error.strerror}): give another with --port, or none."
            ) from None


def load(folder: Path) -> Servers | None:
    """Return the servers of `folder`, None where none were started."""
    try:
        return Servers(**json.loads((folder / STATE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def start(
    folder: Path, *, cluster: bool = False, port: int | None = None, give_up_s: int = 25
) -> Servers:
    """Start servers with their data in `folder`, and return when they take puts.

    The gateway gives a call up after `give_up_s`. Raises `CannotStart`; then none is left running.
    """
    folder = folder.resolve()
    before = load(folder)
    if before is not None and before.running():
        raise CannotStart(
            f"Servers run already in {folder} ({', '.join(before.running())}); "
            f"stop them first: dev/hbase/stop {folder}"
        )
    if port is not None:
        _check_free(port)
    jars = class_path()
    for part in ("logs", "data", "tmp", "zookeeper"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    servers = _planned(folder, jars, cluster=cluster, port=port, give_up_s=give_up_s)
    try:
        for name in servers.commands:
            servers.start(name)
        servers.wait_until_ready()
    except BaseException:
        servers.stop()
        raise
    return servers


def _planned(
    folder: Path, jars: str, *, cluster: bool, port: int | None, give_up_s: int
) -> Servers:
    """Return the servers with their commands, in the order in which they start."""
    zookeeper, master, gateway, admin, *regions = _free_ports(6)
    servers = Servers(str(folder), port or gateway, admin)
    site = common_site(folder, zookeeper, distributed=cluster, give_up_s=give_up_s)
    site["hbase.master.port"] = str(master)

    def add(name: str, heap: str, main: str, *arguments: str, **more: str) -> None:
        conf = folder / "conf" / name
        conf.mkdir(parents=True, exist_ok=True)
        (conf / "hbase-site.xml").write_text(site_xml({**site, **more}), encoding="utf-8")
        (conf / "log4j2.properties").write_text(LOG4J, encoding="utf-8")
        fast = () if cluster else (FAST_START,)
        java = ("java", f"-Xmx{heap}", *fast, *JAVA_FLAGS, "-cp", f"{conf}:{jars}")
        servers.commands[name] = [*java, main, *arguments]

    def region_port(number: int) -> dict[str, str]:
        return {"hbase.regionserver.port": str(regions[number])}

    if cluster:
        zoo = folder / "zoo.cfg"
        zoo.write_text(zoo_cfg(folder, zookeeper), encoding="utf-8")
        add("zookeeper", "64m", _ZOOKEEPER, str(zoo))
        add("master", "256m", _MASTER, "start")
        add("region-1", "384m", _REGION_SERVER, "start", **region_port(0))
        add("region-2", "384m", _REGION_SERVER, "start", **region_port(1))
    else:
        add("hbase", "768m", _MASTER, "start", **region_port(0))
    listen = ("-b", HOST, "--infoport", "-1", "-p")
    add("gateway", "256m", _THRIFT, *listen, str(servers.gateway_port), "start")
    add("admin-gateway", "64m", _THRIFT2, *listen, str(servers.admin_port), "start")
    return servers


def main() -> None:
    """Do what `dev/hbase/start` or `dev/hbase/stop` were asked."""
    parser = argparse.ArgumentParser(prog="dev/hbase", description="HBase servers, for trying.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    starting, stopping = verbs.add_parser("start"), verbs.add_parser("stop")
    for verb in (starting, stopping):
        verb.add_argument("folder", type=Path, help="where data and logs are")
    starting.add_argument("--cluster", action="store_true", help="each server its own process")
    starting.add_argument("--port", type=int, help="of the gateway; by default any that is free")
    stopping.add_argument("--remove", action="store_true", help="and remove the folder")
    asked = parser.parse_args()
    if asked.verb == "start":
        try:
            servers = start(asked.folder, cluster=asked.cluster, port=asked.port)
        except CannotStart as error:
            sys.exit(str(error))
        print(f"HBase runs; its logs are in {servers.folder}/logs. Now:")
        print(f"  tms init --store hbase://{servers.gateway}/tms --admin {servers.admin}")
        print(f"  tms serve --store hbase://{servers.gateway}/tms")
        return
    found = load(asked.folder)
    if found is None:
        print(f"No servers were started in {asked.folder}.")
    else:
        found.stop()
    if asked.remove:
        shutil.rmtree(asked.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
