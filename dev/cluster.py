"""Start a whole cluster on this machine, for experiments: `scripts/cluster`.

HBase and ZooKeeper are real, and the servers share the shards of one store. Ctrl-C stops all of it.
"""

import argparse
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from http.client import OK
from pathlib import Path
from urllib.request import urlopen

from dev.hbase import servers as hbase
from dev.processes import HOST, CannotStart, free_ports
from dev.zookeeper import servers as zookeeper

_TMS = (sys.executable, "-m", "tms")
_STOP_S_MAX = 20
_START_S_MAX = 120
_LOOK_S = 0.2


def main() -> None:
    """Start, print how to use it, and wait for Ctrl-C."""
    parser = argparse.ArgumentParser(prog="scripts/cluster", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("/tmp/tms-cluster"))
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--shards", type=int, default=6)
    parser.add_argument("--by", choices=("namespace", "topic"), default="namespace")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with ExitStack() as stack, suppress(KeyboardInterrupt):
        try:
            urls = _start(options, stack)
        except CannotStart as error:
            sys.exit(str(error))
        tms = f"{Path(sys.executable).parent / 'tms'}"
        print(
            f"{len(urls)} servers share {options.shards} shards; logs are in {options.folder}. Try:"
        )
        print(f"  {tms} cluster --shards --url {urls[0]}")
        print(f"  {tms} topic create hello --url {urls[0]}")
        print(f"  {tms} publish hello world --url {urls[-1]}")
        print(f"  {tms} poll hello --url {urls[0]}")
        print("Stop it with Ctrl-C.", flush=True)
        while True:
            time.sleep(1)


def _start(options: argparse.Namespace, stack: ExitStack) -> list[str]:
    """Start everything, and return the servers' URLs; the stack ends it."""
    folder: Path = options.folder
    store = hbase.start(folder / "hbase")
    stack.callback(store.stop)
    metadata = zookeeper.start(folder / "zookeeper")
    stack.callback(metadata.stop)
    url = f"hbase://{store.gateway}/tms"
    shards = ("--shards", str(options.shards), "--shard-by", options.by)
    made = subprocess.run(
        (*_TMS, "init", "--store", url, "--admin", store.admin, *shards), check=False
    )
    if made.returncode:
        raise CannotStart("`tms init` has failed; its message is above")
    urls, servers = [], []
    for number, port in enumerate(free_ports(options.servers), 1):
        address = f"{HOST}:{port}"
        log = stack.enter_context((folder / f"server-{number}.log").open("w"))
        flags = ("--listen", address, "--advertise", f"http://{address}", "--lease-s", "3")
        shared = ("--store", url, "--metadata", f"zk://{metadata.addresses}/tms")
        server = subprocess.Popen((*_TMS, "serve", *shared, *flags), stdout=log, stderr=log)
        stack.callback(_stop, server)
        urls.append(f"http://{address}")
        servers.append(server)
    for url, server in zip(urls, servers, strict=True):
        _until_ready(url, server)
    return urls


def _until_ready(url: str, server: "subprocess.Popen[bytes]") -> None:
    """Wait until a server answers requests. Raises `CannotStart`."""
    deadline_s = time.monotonic() + _START_S_MAX
    while time.monotonic() < deadline_s:
        if server.poll() is not None:
            raise CannotStart(f"the server at {url} has ended; its log says why")
        with suppress(OSError), urlopen(f"{url}/ready", timeout=1) as answer:
            if answer.status == OK:
                return
        time.sleep(_LOOK_S)
    raise CannotStart(f"the server at {url} is not ready after {_START_S_MAX} s; see its log")


def _stop(server: subprocess.Popen[bytes]) -> None:
    """Stop one server in order, or kill it if it does not stop."""
    server.terminate()
    try:
        server.wait(_STOP_S_MAX)
    except subprocess.TimeoutExpired:
        server.kill()


if __name__ == "__main__":
    main()
