"""Backups and restores are killed with -9; each backup is complete, with nothing by halves."""

import asyncio
import copy
import random
import subprocess
from contextlib import suppress
from pathlib import Path

import httpx

import tms.aio
from tables.backups import BackupFolder
from tests.faults.crashing import TOPIC
from tests.faults.ledger import Ledger, Outcome
from tests.faults.load import Load, check_log
from tests.faults.serving import serve
from tests.scale import scaled
from tests.servers.server_process import ServerProcess, tms_command
from tests.waiting import WAIT_S_MAX

ROUNDS = scaled(40)


class Moment:
    """The state of the ledger when a backup was requested."""

    def __init__(self, ledger: Ledger) -> None:
        requests = ledger.requests
        self._published = {r.name for r in requests if r.published is Outcome.DONE}
        self._rolled_back = {r.name for r in requests if r.rolled_back is Outcome.DONE}
        self._followed = len(ledger.followed)
        self._seen = len(ledger.seen)

    def ledger(self, later: Ledger) -> Ledger:
        """Return the part of a later ledger that a backup of this moment must contain."""
        then = copy.deepcopy(later)
        del then.followed[self._followed :], then.seen[self._seen :]
        for request in then.requests:
            if request.name not in self._published:
                request.published, request.ended = Outcome.UNKNOWN, None
            if request.name not in self._rolled_back:
                request.rolled_back = Outcome.UNKNOWN
        return then


async def back_up_and_kill(
    server: ServerProcess, name: str, ledger: Ledger, chance: random.Random
) -> Moment:
    """Take a backup under load, and kill the server during it or soon after."""
    async with Load(server.url, TOPIC, ledger, chance) as load, httpx.AsyncClient() as http:
        await load.until_acknowledged(chance.choice((1, 30, 400)))
        moment = Moment(ledger)
        wait_s = chance.choice((0, 30))
        url = f"{server.url}/v1/backups/{name}?wait={wait_s}"
        started = await http.put(url, timeout=WAIT_S_MAX)
        assert started.status_code == 200, started.text
        assert started.json()["stage"] == ("done" if wait_s else "running"), started.text
        killed = asyncio.Event()

        def kill() -> None:
            server.kill()
            killed.set()

        asyncio.get_running_loop().call_later(chance.uniform(0, 0.2), kill)
        await killed.wait()
    return moment


def restore(backup: Path, target: Path, chance: random.Random) -> None:
    """Restore a backup by a process that may be killed, and if it is, by a second one."""
    command = [*tms_command(), "restore", str(backup), str(target)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as first:
        with suppress(subprocess.TimeoutExpired):
            first.wait(chance.uniform(0, 0.3))
        first.kill()
    if first.returncode != 0:
        subprocess.run(command, stdin=subprocess.DEVNULL, check=False, capture_output=True)


def test_what_was_acknowledged_before_a_backup_is_restored(
    tmp_path: Path, chance: random.Random
) -> None:
    ledger, folder = Ledger(), BackupFolder(tmp_path / "backups")
    moments: dict[str, Moment] = {}

    async def create(url: str) -> None:
        async with await tms.aio.connect(url) as client:
            await client.topic(TOPIC).create()

    async def check_restored(name: str, target: Path) -> None:
        with serve(target) as server:
            await check_log(server.url, TOPIC, moments[name].ledger(ledger), settled=False)
            async with await tms.aio.connect(server.url) as client:
                topic = client.topic(TOPIC)
                last = [message async for message in topic.poll()][-1:]
                await topic.publish(b"later")
                [later] = [m async for m in topic.poll(after=last[0].id if last else None)]
            assert not last or later.id > last[0].id

    checked = 0
    for number in range(ROUNDS):
        name = f"b{number}"
        buffer = str(chance.choice((2**16, 2**20, 2**24)))
        flags = ("--backup-folder", str(folder.path), "--leveldb-write-buffer-bytes", buffer)
        with serve(tmp_path / "store", *flags) as server:
            if number == 0:
                asyncio.run(create(server.url))
            asyncio.run(check_log(server.url, TOPIC, ledger, settled=True))
            moments[name] = asyncio.run(back_up_and_kill(server, name, ledger, chance))
        if name in folder.names():
            folder.verify(name, lambda done, size: None)
            target = tmp_path / f"restored{number}"
            restore(folder.path / name, target, chance)
            asyncio.run(check_restored(name, target))
            checked += 1
        if number > 2:
            kept = chance.choice(folder.names() or [name])
            with suppress(FileNotFoundError):
                folder.delete(kept)
    assert checked > ROUNDS // 4
    for name in folder.names():
        folder.verify(name, lambda done, size: None)
