"""Starts and stops a real ZooKeeper on this machine, one server or an ensemble.

    dev/zookeeper/start FOLDER [--members 3]
    dev/zookeeper/stop FOLDER [--remove]

The jars are those of dev/hbase, which include ZooKeeper's server.
"""

import argparse
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from dev import commands
from dev.hbase.configuration import FAST_START
from dev.jars import class_path
from dev.processes import HOST, CannotStart, Servers, check_none_run, free_ports

START_S_MAX = 120
_ONE = "org.apache.zookeeper.server.ZooKeeperServerMain"
_MEMBER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

_NO_NATIVE = "-Dio.netty.transport.noNative=true"
"""The jars have native parts of another version of Netty, which TLS would use."""
_LOG4J = """\
log4j.rootLogger=WARN, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %-5p [%t] %c{2}: %m%n
"""

Settings = Mapping[str, str]


def start(folder: Path, *, members: int = 1, settings: Settings | None = None) -> Servers:
    """Start servers with their data in `folder`, and return when they serve clients.

    `settings` are added to each zoo.cfg. Raises `CannotStart`; then none is left running.
    """
    folder = folder.resolve()
    check_none_run(folder)
    jars = class_path()
    servers = _planned(folder, jars, members, settings or {})
    servers.start_all()
    try:
        for name in servers.commands:
            wait_until_serving(servers, name)
    except BaseException:
        servers.stop()
        raise
    return servers


def _planned(folder: Path, jars: str, members: int, settings: Settings) -> Servers:
    """Return the servers with their commands and configurations."""
    ports = free_ports(3 * members)
    names = [f"zookeeper-{number}" for number in range(1, members + 1)]
    servers = Servers(str(folder), dict(zip(names, ports, strict=False)))
    peers = ports[members:]
    ensemble = {
        f"server.{number + 1}": f"{HOST}:{peers[2 * number]}:{peers[2 * number + 1]}"
        for number in range(members)
    }
    conf = folder / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    (conf / "log4j.properties").write_text(_LOG4J, encoding="utf-8")
    for number, name in enumerate(names, 1):
        data = folder / name
        data.mkdir(exist_ok=True)
        (data / "myid").write_text(f"{number}\n", encoding="utf-8")
        options = {
            "tickTime": "500",
            "initLimit": "20",
            "syncLimit": "10",
            "dataDir": str(data),
            "clientPort": str(servers.ports[name]),
            "clientPortAddress": HOST,
            "admin.enableServer": "false",
            "maxClientCnxns": "0",
            # A client may request a session of 1 to 60 s; the default maximum is twenty ticks.
            "maxSessionTimeout": "60000",
            "4lw.commands.whitelist": "srvr",
            **(ensemble if members > 1 else {}),
            **settings,
        }
        cfg = conf / f"{name}.cfg"
        cfg.write_text("".join(f"{k}={v}\n" for k, v in options.items()), encoding="utf-8")
        java = ("java", "-Xmx256m", FAST_START, "-XX:+UseSerialGC", _NO_NATIVE)
        servers.commands[name] = [
            *java,
            "-cp",
            f"{conf}:{jars}",
            _MEMBER if members > 1 else _ONE,
            str(cfg),
        ]
    return servers


def role(port: int) -> str | None:
    """Return a server's role: leader, follower or standalone; None if it serves no clients."""
    try:
        with socket.create_connection((HOST, port), 2) as connection:
            connection.sendall(b"srvr")
            said = b""
            while part := connection.recv(4096):
                said += part
    except OSError:
        return None
    roles = [line[6:] for line in said.decode().splitlines() if line.startswith("Mode: ")]
    return roles[0] if roles else None


def leader(servers: Servers) -> str:
    """Return the name of the leader, after waiting for its election."""
    deadline = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline:
        for name in servers.running():
            if role(servers.ports[name]) == "leader":
                return name
        time.sleep(0.1)
    raise CannotStart(f"No member led within {START_S_MAX} s.")


def wait_until_serving(servers: Servers, name: str) -> None:
    """Return when the server `name` serves clients. Raises `CannotStart`."""
    deadline = time.monotonic() + START_S_MAX
    while role(servers.ports[name]) is None:
        servers.check_running()
        if time.monotonic() > deadline:
            raise CannotStart(f"{servers.end_of_log(name)}\n{name} did not serve.")
        time.sleep(0.1)


def _start(folder: Path, arguments: argparse.Namespace) -> Servers:
    return start(folder, members=arguments.members)


if __name__ == "__main__":
    os.umask(0o077)
    commands.main("zookeeper", _start, "zk")
