"""Starts and stops a real etcd on this machine, one server or a cluster.

    dev/etcd/start FOLDER [--members 3]
    dev/etcd/stop FOLDER [--remove]

etcd is Debian's: apt-get install etcd-server.
"""

import argparse
import base64
import json
import os
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from dev import commands
from dev.processes import HOST, CannotStart, Servers, check_none_run, free_ports

START_S_MAX = 60


def start(folder: Path, *, members: int = 1, options: Sequence[str] = ()) -> Servers:
    """Start servers with their data in `folder`, and return when they serve clients.

    `options` are added to each server's; with `--cert-file` clients must use TLS. Raises
    `CannotStart`; then none is left running.
    """
    folder = folder.resolve()
    check_none_run(folder)
    if shutil.which("etcd") is None:
        raise CannotStart("There is no etcd: apt-get install etcd-server")
    servers = _planned(folder, members, options)
    servers.start_all()
    try:
        for name in servers.commands:
            wait_until_serving(servers, name)
    except BaseException:
        servers.stop()
        raise
    return servers


def _planned(folder: Path, members: int, options: Sequence[str]) -> Servers:
    """Return the servers with their commands."""
    ports = free_ports(2 * members)
    names = [f"etcd-{number}" for number in range(1, members + 1)]
    servers = Servers(str(folder), dict(zip(names, ports, strict=False)))
    peers = {name: f"http://{HOST}:{ports[members + n]}" for n, name in enumerate(names)}
    scheme = "https" if any(option.startswith("--cert-file") for option in options) else "http"
    folder.mkdir(parents=True, exist_ok=True)
    for name, peer in peers.items():
        client = f"{scheme}://{HOST}:{servers.ports[name]}"
        servers.commands[name] = [
            *("etcd", f"--name={name}", f"--data-dir={folder / name}", "--logger=zap"),
            *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
            *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"),
            "--initial-cluster=" + ",".join(f"{n}={url}" for n, url in peers.items()),
            # Elections within a second, so that tests of them need not wait long.
            *("--heartbeat-interval=100", "--election-timeout=1000", "--log-level=warn"),
            *options,
        ]
    return servers


def wait_until_serving(servers: Servers, name: str) -> None:
    """Return when the server `name` is healthy. Raises `CannotStart`."""
    deadline = time.monotonic() + START_S_MAX
    while not is_healthy(servers, name):
        servers.check_running()
        if time.monotonic() > deadline:
            raise CannotStart(f"{servers.end_of_log(name)}\n{name} did not serve.")
        time.sleep(0.05)


def is_healthy(servers: Servers, name: str) -> bool:
    """Whether a server answers and, unless it requires certificates, has a leader."""
    options = [option for option in servers.commands[name] if option.startswith("--cert-file")]
    anyone = ssl.create_default_context()
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    url = f"{'https' if options else 'http'}://{HOST}:{servers.ports[name]}/health"
    try:
        with urllib.request.urlopen(url, timeout=2, context=anyone if options else None) as got:
            return b"true" in got.read()
    except ssl.SSLError:
        return True
    except urllib.error.URLError as error:
        return isinstance(error.reason, ssl.SSLError)
    except OSError:
        return False


def leader(servers: Servers) -> str:
    """Return the name of the leader, after waiting for its election."""
    deadline = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline:
        for name in servers.running():
            url = f"http://{HOST}:{servers.ports[name]}/metrics"
            with suppress(OSError), urllib.request.urlopen(url, timeout=2) as got:
                if b"\netcd_server_is_leader 1" in got.read():
                    return name
        time.sleep(0.1)
    raise CannotStart(f"No member led within {START_S_MAX} s.")


class Administration:
    """Users and roles of servers on which authentication is not enabled yet."""

    def __init__(self, servers: Servers) -> None:
        self._url = f"http://{servers.addresses.partition(',')[0]}/v3/auth"

    def add_role(self, role: str, start: str, stop: str) -> None:
        """Let a role, which is created if necessary, read and write the keys of a range."""
        with suppress(urllib.error.HTTPError):  # it exists
            self._ask("role/add", {"name": role})
        start, stop = (base64.b64encode(key.encode()).decode() for key in (start, stop))
        allowed = {"permType": "READWRITE", "key": start, "range_end": stop}
        self._ask("role/grant", {"name": role, "perm": allowed})

    def add_user(self, user: str, password: str, role: str) -> None:
        """Add a user with a role."""
        with suppress(urllib.error.HTTPError):
            self._ask("role/add", {"name": role})
        self._ask("user/add", {"name": user, "password": password})
        self._ask("user/grant", {"user": user, "role": role})

    def enable(self) -> None:
        """Enable authentication."""
        self._ask("enable", {})

    def _ask(self, what: str, body: object) -> None:
        urllib.request.urlopen(f"{self._url}/{what}", json.dumps(body).encode(), timeout=10).close()


def _start(folder: Path, arguments: argparse.Namespace) -> Servers:
    return start(folder, members=arguments.members)


if __name__ == "__main__":
    os.umask(0o077)
    commands.main("etcd", _start, "etcd")
