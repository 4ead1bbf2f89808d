"""The command line of `dev/zookeeper/start` and the similar programs."""

import argparse
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from dev.processes import CannotStart, Servers, load


def main(name: str, start: Callable[[Path, argparse.Namespace], Servers], scheme: str) -> None:
    """Start servers with `start`, or stop them, and print how to use them."""
    parser = argparse.ArgumentParser(
        prog=f"dev/{name}", description=f"Run {name} on this machine, for experiments."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    starting, stopping = verbs.add_parser("start"), verbs.add_parser("stop")
    for verb in (starting, stopping):
        verb.add_argument("folder", type=Path, help="folder for data and logs")
    starting.add_argument(
        "--members", type=int, default=1, help="number of servers: 1, or 3 for an ensemble"
    )
    stopping.add_argument("--remove", action="store_true", help="also remove the folder")
    arguments = parser.parse_args()
    if arguments.verb == "start":
        try:
            servers = start(arguments.folder, arguments)
        except CannotStart as error:
            sys.exit(str(error))
        print(f"{name} is running; its logs are in {servers.folder}/logs. Its URL for TMS:")
        print(f"  {scheme}://{servers.addresses}/tms")
        return
    found = load(arguments.folder, Servers)
    if found is None:
        print(f"No servers are running in {arguments.folder}.")
    else:
        found.stop()
    if arguments.remove:
        shutil.rmtree(arguments.folder, ignore_errors=True)
