"""Starts and stops real HBase servers on this machine, for tests and experiments.

    dev/hbase/start FOLDER [--cluster] [--port PORT]
    dev/hbase/stop FOLDER [--remove]

Without `--cluster`, HBase is one JVM (master, region server and ZooKeeper), which starts faster
and runs slower; with it, ZooKeeper, a master and two region servers are separate processes. In both
cases there are two Thrift gateways: the one that TMS uses, and one of Thrift's second version,
which is needed to create tables in several regions (`tms init --admin`).

Logs are in `FOLDER/logs` (dev/processes.py). The jars come from Maven, once (dev/jars.py).
"""

import argparse
import shutil
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import happybase
from thriftpy2.thrift import TException

from dev.hbase.configuration import (
    FAST_START,
    JAVA_FLAGS,
    LOG4J,
    common_site,
    site_xml,
    zoo_cfg,
)
from dev.jars import class_path
from dev.processes import HOST, CannotStart, Servers, check_none_run, free_ports, load

START_S_MAX = 120
_GATEWAY, _ADMIN = "gateway", "admin-gateway"

_MASTER = "org.apache.hadoop.hbase.master.HMaster"
_REGION_SERVER = "org.apache.hadoop.hbase.regionserver.HRegionServer"
_ZOOKEEPER = "org.apache.zookeeper.server.ZooKeeperServerMain"
_THRIFT = "org.apache.hadoop.hbase.thrift.ThriftServer"
_THRIFT2 = "org.apache.hadoop.hbase.thrift2.ThriftServer"


@dataclass
class HBaseServers(Servers):
    """The servers of one HBase."""

    @property
    def gateway_port(self) -> int:
        """The port of the gateway that TMS uses."""
        return self.ports[_GATEWAY]

    @property
    def admin_port(self) -> int:
        """The port of the gateway that creates tables in several regions."""
        return self.ports[_ADMIN]

    @property
    def gateway(self) -> str:
        """HOST:PORT of the gateway that TMS uses."""
        return f"{HOST}:{self.gateway_port}"

    @property
    def admin(self) -> str:
        """HOST:PORT of the gateway that creates tables in several regions."""
        return f"{HOST}:{self.admin_port}"

    def stop(self) -> None:
        """End all processes, those closest to clients first."""
        for name in (_ADMIN, _GATEWAY):
            if name in self.pids:
                self.kill(name, signal.SIGTERM)
        super().stop()

    def wait_until_ready(self) -> None:
        """Return when a put through the gateway is acknowledged. Raises `CannotStart`."""
        deadline = time.monotonic() + START_S_MAX
        said = ""
        while time.monotonic() < deadline:
            self.check_running()
            try:
                _put_once(self.gateway_port)
                socket.create_connection((HOST, self.admin_port), 5).close()
            except (TException, OSError) as error:
                said = str(error)[:300]
                time.sleep(0.3)
            else:
                return
        ends = "\n".join(map(self.end_of_log, self.pids))
        raise CannotStart(f"{ends}\nNo put was acknowledged within {START_S_MAX} s: {said}")


def _put_once(port: int) -> None:
    connection = happybase.Connection(HOST, port, timeout=30_000)
    try:
        if b"ready" not in connection.tables():
            connection.create_table("ready", {"d": {}})
        connection.table("ready").put(b"k", {b"d:v": b""})
    finally:
        connection.close()


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise CannotStart(
                f"Port {port} is taken ({error.strerror}): give another with --port, or none."
            ) from None


def start(
    folder: Path, *, cluster: bool = False, port: int | None = None, give_up_s: int = 25
) -> HBaseServers:
    """Start servers with their data in `folder`, and return when they accept puts.

    The gateway gives up a call after `give_up_s`. Raises `CannotStart`; then none is left running.
    """
    folder = folder.resolve()
    check_none_run(folder)
    if port is not None:
        _check_free(port)
    jars = class_path()
    for part in ("logs", "data", "tmp", "zookeeper"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    servers = _planned(folder, jars, cluster=cluster, port=port, give_up_s=give_up_s)
    servers.start_all()
    try:
        servers.wait_until_ready()
    except BaseException:
        servers.stop()
        raise
    return servers


def _planned(
    folder: Path, jars: str, *, cluster: bool, port: int | None, give_up_s: int
) -> HBaseServers:
    """Return the servers with their commands, in the order in which they start."""
    zookeeper, master, gateway, admin, *regions = free_ports(6)
    servers = HBaseServers(str(folder), {_GATEWAY: port or gateway, _ADMIN: admin})
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
    add(_GATEWAY, "256m", _THRIFT, *listen, str(servers.gateway_port), "start")
    add(_ADMIN, "64m", _THRIFT2, *listen, str(servers.admin_port), "start")
    return servers


def main() -> None:
    """Run `dev/hbase/start` or `dev/hbase/stop`."""
    parser = argparse.ArgumentParser(
        prog="dev/hbase", description="Run HBase on this machine, for experiments."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    starting, stopping = verbs.add_parser("start"), verbs.add_parser("stop")
    for verb in (starting, stopping):
        verb.add_argument("folder", type=Path, help="folder for data and logs")
    starting.add_argument(
        "--cluster", action="store_true", help="run each server in its own process"
    )
    starting.add_argument("--port", type=int, help="port of the gateway (default: any free one)")
    stopping.add_argument("--remove", action="store_true", help="also remove the folder")
    arguments = parser.parse_args()
    if arguments.verb == "start":
        try:
            servers = start(arguments.folder, cluster=arguments.cluster, port=arguments.port)
        except CannotStart as error:
            sys.exit(str(error))
        print(f"HBase is running; its logs are in {servers.folder}/logs. To use it:")
        print(f"  tms init --store hbase://{servers.gateway}/tms --admin {servers.admin}")
        print(f"  tms serve --store hbase://{servers.gateway}/tms")
        return
    found = load(arguments.folder, HBaseServers)
    if found is None:
        print(f"No servers are running in {arguments.folder}.")
    else:
        found.stop()
    if arguments.remove:
        shutil.rmtree(arguments.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
