"""Everything at once on a real server that is killed with -9, against a model.

    python -m tests.simulation.everything --seconds 1200 --seed 7

Topics are created, deleted, created again and given another ttl. Messages are published alone, to
several topics at once, and in transactions that commit, abort, time out or are invalidated;
positions move with the commits. More topics are in use than stay in memory, and cleanup runs one
pass after another. Members take from groups, settle, and acknowledge with commits
(`everything_groups`). The synchronous client is used too: the collector ends its half-read
iterators, and signal handlers publish and close (`everything_clients`). At any moment the server's
clock may be set, and the server may be killed or stopped. The messages that readers get are
compared with the model (`everything_model`) all the time, and the tables are verified while the
server is down. A file is then removed from a copy of the folder: the copy must be refused, or still
have all rows.
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path

from tables.leveldb import LevelDBStore
from tables.store import ALL_TABLES, COORDINATION
from tests.contracts.store_contract import rows_of
from tests.faults.lost_files import lose_a_file
from tests.servers.server_process import ServerProcess
from tests.servers.stepping_clock import SteppingClock
from tests.simulation.everything_acts import TIMEOUT_S, Acts, Killed
from tests.simulation.everything_clients import ClientActs
from tests.simulation.everything_groups import GroupActs
from tests.simulation.everything_model import Difference
from tms.cli.inspected import parts
from tms.client.remote.remote_services import RemoteServices
from tms.core.errors import StoreFileLost, StoreFormatUnknown, TmsError
from tms.core.values.inspection import CHECKED, ROWS_MAX
from tms.core.values.store_access import StoreAccess
from tms.server.stores import inspect

EPISODE_S = (0.5, 4.0)
KILLED_SHARE = 0.8
FLAGS = (
    *("--cleanup-period-s", "0.1"),
    *("--topics-in-memory-max", "3", "--cache-bytes-max", "20000"),
    *("--transaction-lifetime-s-max", "4", "--transaction-timeout-s-max", "4"),
    *("--transaction-timeout-s-default", str(TIMEOUT_S), "--transaction-long-timeout-s", "4"),
    "--no-sync",
)
"""A kill does not take the machine down: everything written stays, even without a sync."""
LIMITS = {"transaction_snapshot_edits": 200, "cleanup_grace_s": 1, "cleanup_slice_rows": 20}


class Everything:
    """One run, on one folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder / "store"
        self.store = f"leveldb:{self.folder}"
        self.clock = SteppingClock(folder)
        self.acts = Acts(seed, self.clock)
        self.clients = ClientActs(self.acts)
        self.groups = GroupActs(self.acts)
        self.chance, self.counts = self.acts.chance, self.acts.counts

    async def episode(self) -> None:
        """Start the server, compare everything, and work until it is killed or stopped."""
        lasts_s = self.chance.uniform(*EPISODE_S)
        kills = self.chance.random() < KILLED_SHARE
        with ServerProcess(self.store, *FLAGS, clock=self.clock, limits=LIMITS) as server:
            services = RemoteServices(server.url, timeout_s=30, retry_for_s=0, compress=False)
            self.acts.ask(services)
            self.groups.ask(services.groups)
            self.clients.url = server.url
            if kills:
                asyncio.get_running_loop().call_later(lasts_s, self.kill, server)
            try:
                await self.acts.check_everything()
                await self.work(None if kills else time.monotonic() + lasts_s)
            except Killed as error:
                if not kills or server.is_running:
                    raise Difference(f"it did not answer: {error}") from error
            finally:
                self.clients.close()
                await services.close()
            if not kills and server.stop() != 0:
                raise Difference(f"it did not stop in order: {server.log}")
            if "Traceback" in server.log:
                raise Difference(server.log)

    async def work(self, until_s: float | None) -> None:
        """Do one act after another; if the number is None, until the server is gone."""
        acts, clients, groups = self.acts, self.clients, self.groups
        often = {
            acts.publish: 30,
            acts.publish_to_many: 15,
            acts.start: 10,
            acts.publish_in_one: 20,
            acts.end: 10,
            acts.change_topic: 6,
            acts.change_position: 8,
            acts.check: 25,
            acts.set_the_clock: 1,
            groups.change_group: 6,
            groups.take: 20,
            groups.settle: 20,
            groups.commit_with_acks: 8,
            groups.drain: 3,
            clients.collect_half_read: 4,
            clients.publish_in_a_handler: 3,
            clients.close_in_a_handler: 3,
        }
        while until_s is None or time.monotonic() < until_s:
            act = self.chance.choices(list(often), list(often.values()))[0]
            self.counts[act.__name__] += 1
            await act()

    def kill(self, server: ServerProcess) -> None:
        self.counts["kills"] += 1
        server.kill()

    async def verify(self) -> None:
        """Verify the tables while no server has them open."""
        inspection = inspect(self.store)
        try:
            for checked in CHECKED:
                look = partial(inspection.problems, checked, limit=ROWS_MAX, is_cleaned=False)
                async for part in parts(look):
                    if part.problems:
                        raise Difference("\n".join(part.problems))
        finally:
            inspection.close()

    def lose_a_file(self) -> None:
        """Remove a file from a copy of the folder: the copy is refused, or has the same rows."""
        copy = self.folder.with_name(f"{self.folder.name}-copy")
        shutil.copytree(self.folder, copy)
        lost = lose_a_file(copy, self.chance)
        try:
            is_whole = _rows(copy) == _rows(self.folder)
        except (StoreFileLost, StoreFormatUnknown):
            self.counts["refused without a file"] += 1
        else:
            self.counts["whole without a file"] += 1
            if not is_whole:
                raise Difference(f"rows are missing, and {lost} was not missed")
        shutil.rmtree(copy)


def _rows(folder: Path) -> list[list[tuple[bytes, bytes]]]:
    store = LevelDBStore(folder, StoreAccess.READ)
    try:
        return [rows_of(store, table) for table in (*ALL_TABLES, COORDINATION)]
    finally:
        store.close()


def show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run(folder: Path, seconds: float, seed: int, kills: int = 0) -> Counter[str]:
    """Run for this time, and for this many kills; return how often each act was done.

    Raises `Difference`.
    """
    everything = Everything(folder, seed)
    ends = time.monotonic() + seconds
    with closing(everything.clock):
        while time.monotonic() < ends or everything.counts["kills"] < kills:
            asyncio.run(everything.episode())
            asyncio.run(everything.verify())
            everything.lose_a_file()
            everything.counts["episodes"] += 1
    return everything.counts


def main() -> None:
    """Run as the command line says; a failed run leaves its folder for inspection."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tms-everything-"))
    show(f"seed {asked.seed}, in {folder}")
    try:
        show(str(dict(run(folder, asked.seconds, asked.seed))))
    except (AssertionError, TmsError):
        show(f"seed {asked.seed} failed; the store is in {folder}")
        raise


if __name__ == "__main__":
    main()
