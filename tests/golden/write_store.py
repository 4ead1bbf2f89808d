"""Writes a golden store with the code of an older version: see README.md for how it is run.

    python -m tests.golden.write_store leveldb:FOLDER PART
    python -m tests.golden.write_store hbase:FILE PART        FILE keeps the rows between two parts

The parts are begin, name, add, end, group, schedule, filter and tell.
`begin` closes the store, so the log of transactions has a snapshot and LevelDB a table; `end` dies
without closing it, so both logs have something to replay. `name` is for versions in which names of
properties have no meaning; `add` for those with keys and headers, trims, and names with a meaning.
`group` is for versions with groups, and prints their state; `schedule` for those with schedules,
and prints the waiting messages; `filter` for those with filters and dead letters, and prints what
a group with both says. `tell` prints what this version sees.
"""

import importlib
import importlib.util
import json
import os
import sys
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import tms
from tests.golden.seen import OWNER, SEQUENCE, seen
from tms.core.runtime.clock import SystemClock
from tms.core.services.transactions import StartRequest
from tms.core.values.transaction import TransactionType

NOW_MS = 1_790_000_000_000
SPAN_MS = 3_600_000
DAY_S = 86_400


class Steps:
    """A clock that continues by a second with each step."""

    def __init__(self, part: int) -> None:
        self.now_ms = NOW_MS + part * 10_000_000

    def step(self) -> None:
        self.now_ms += 1_000


def begin(client: Any, clock: Steps) -> None:
    """Write what all formats can say, and close."""
    orders = client.topic("orders")
    orders.create(ttl=DAY_S, owner="shop", region="Zürich")
    orders.publish([b"plain 1", b"plain 2"])
    clock.step()
    with client.transaction() as tx:
        orders.publish(b"committed", tx)
    with client.transaction() as tx:
        orders.publish(b"rolled back", tx)
        tx.abort()
    clock.step()
    with client.transaction() as tx:
        orders.publish([b"stored 1", b"stored 2"], tx, buffer=True)
    with client.transaction(owner=OWNER, sequence=SEQUENCE) as tx:
        orders.publish(b"of the owner", tx)
    given_up = client.transactions.start(StartRequest())
    orders.publish(b"invalid", given_up)
    client.transactions.invalidate(given_up.transaction_id)
    clock.step()
    prices = client.topic("prices")
    for generation in (1, 2, 3):
        prices.create(currency="EUR") if generation == 3 else prices.create()
        prices.publish(f"of generation {generation}".encode())
        if generation < 3:
            prices.delete()
        clock.step()
    gone = client.topic("gone")
    gone.create()
    gone.publish(b"gone")
    gone.delete()
    billing = orders.subscription("billing")
    billing.create()
    orders.subscription("idle").create()
    with client.transaction() as tx:
        consumed = list(billing.poll(limit=2))
        billing.advance(consumed[-1], tx)


def name(client: Any, clock: Steps) -> None:
    """Give a topic properties whose names mean nothing yet."""
    named = client.topic("named")
    given = {
        "live_from_ms": clock.now_ms + SPAN_MS,
        "retention_messages": 3,
        "user.retention_messages": "mine",
        "retention_of": "papers",
        "cleanup": "compact",
        "schema_check": "full",
        "subject": "anything",
        "tombstone_s": "never",
        "tms.own": "no",
        "owner": "shop",
    }
    named.create(DAY_S, **given)
    named.publish([f"named {n}".encode() for n in range(5)])
    clock.step()


def add(client: Any, clock: Steps) -> None:
    """Write what versions of format 3 can say."""
    framed = client.topic("framed")
    framed.create(ttl=DAY_S, retention_messages=1000, **{"tms.own": "yes"})
    framed.publish(b"trimmed")
    clock.step()
    framed.trim(clock.now_ms)
    framed.publish(
        [
            b"a payload alone",
            tms.Message(b"19.90", key=b"apples", headers={"currency": b"EUR", "b": b""}),
            tms.tombstone(b"apples"),
            tms.Message(b"", key=b""),
        ]
    )
    with client.transaction() as tx:
        framed.publish(tms.Message(b"committed", key=b"k"), tx)
    with client.transaction() as tx:
        framed.publish([b"stored", tms.Message(b"stored", headers={"h": b"v"})], tx, buffer=True)


def end(client: Any, clock: Steps) -> None:
    """Leave transactions open, and a bound of cleanup behind."""
    orders = client.topic("orders")
    orders.publish(b"plain 3")
    open_one = client.transactions.start(StartRequest(type=TransactionType.LONG))
    orders.publish(b"open", open_one)
    orders.store([b"stored, open 1", b"stored, open 2"], open_one)
    clock.step()
    half = client.transactions.start(StartRequest(type=TransactionType.LONG))
    half = client.transactions.checkpoint(half.transaction_id)
    orders.publish(b"kept in an open one", half)
    published = orders.publish(b"rolled back in an open one", half)
    orders.rollback(published)
    with client.transaction() as tx:
        orders.publish(b"committed behind an open one", tx)
    orders.publish(b"plain 4")


def schedule(client: Any, _: Steps) -> None:
    """Leave messages scheduled, and print what waits."""
    later = client.topic("later")
    later.create(ttl=DAY_S)
    later.schedule(b"published", after=0)
    assert list(later.poll(wait_s=30))
    keyed = tms.Message(b"second", key=b"k", headers={"h": b"v"})
    ids = later.schedule([b"first", keyed, b"cancelled"], after=2 * SPAN_MS // 1000)
    later.cancel_scheduled(ids[2])
    later.schedule(b"before", after=SPAN_MS // 1000)
    with client.transaction() as tx:
        later.schedule(b"of a commit", tx, after=SPAN_MS // 1000)
    sys.stdout.write(json.dumps(waiting(client), indent=1) + "\n")


def waiting(client: Any) -> list[list[Any]]:
    """Return as JSON has it what the schedule of `later` says."""
    return [
        [
            each.id,
            each.at_ms,
            each.message.payload.decode(),
            each.message.key and each.message.key.decode(),
            {name: value.decode() for name, value in each.message.headers.items()},
        ]
        for each in client.topic("later").scheduled()
    ]


def choose(client: Any, _: Steps) -> None:
    """Leave a group with a filter in the middle of its work, and print what it says."""
    chosen = client.topic("chosen")
    chosen.create(ttl=DAY_S)
    chosen.publish(
        [
            tms.Message(b"%d" % number, key=key, headers={"region": region})
            for number, (key, region) in enumerate(product((b"a", b"b"), (b"eu", b"us") * 3))
        ]
    )
    chosen.publish(b"without a key")
    europe = chosen.group("europe")
    europe.create(filter='header.region = "eu"', attempts_max=3)
    acked, rejected, _ = europe.take_once(3)
    acked.ack()
    rejected.reject("not this one")
    assert list(client.topic("chosen--dead").poll(committed=True, wait_s=30))
    sys.stdout.write(json.dumps(chosen_by(client), indent=1) + "\n")


def chosen_by(client: Any) -> dict[str, Any]:
    """Return as JSON has it what the group of `choose` says."""
    europe = client.topic("chosen").group("europe")
    return {
        "settings": asdict(europe.show().settings),
        "open": [each.id.hex() for each in europe.open()],
    }


def put_bound(store: Any) -> None:
    """Put a row of the Bound table."""
    try:
        table = importlib.import_module("tables.prune_bound_table")
    except ModuleNotFoundError:
        table = importlib.import_module("tables.bound_table")  # its name before
    batch = store.batch()
    bound = table.Bound(
        table="message", start=b"", stop=b"\xff", write_pointer=NOW_MS * 10**6, recorded_ms=NOW_MS
    )
    table.StoreBoundTable(store).put(batch, bound)
    store.write(batch)


def tell(client: Any, clock: Steps) -> None:
    """Print what this version sees, a minute later."""
    clock.now_ms += 60_000
    sys.stdout.write(json.dumps(seen(client), indent=1, ensure_ascii=False) + "\n")


_PARTS = {"begin": begin, "name": name, "add": add, "end": end, "tell": tell}
_TOLD = {"schedule": schedule, "filter": choose}
"""Parts that print something, at the time of `tell`."""
_GROUP = "group"
"""It needs the tables, and no clock of its own: it comes between `end` and `tell`."""


def main() -> None:
    """Run a part."""
    has_room = importlib.util.find_spec("tms.server.node") is not None
    node: Any = importlib.import_module("tms.server.node" if has_room else "tms.node")
    url, part = sys.argv[1:]
    clock = Steps(list(_PARTS).index(part if part in _PARTS else "tell"))
    system_clock: Any = SystemClock
    system_clock.now_ms = lambda _: clock.now_ms
    kind, _, place = url.partition(":")
    opened: list[Any] = []
    if kind == "hbase":
        from tests.golden.rows_of_hbase import opening  # noqa: PLC0415  only some versions have a store there

        open_tables, save = opening(Path(place))
        url = "memory:"
    else:
        open_tables, save = node.open_tables, lambda: None

    def open_and_keep(*arguments: Any, **options: Any) -> Any:
        opened.append(open_tables(*arguments, **options))
        return opened[-1]

    node.open_tables = open_and_keep
    client = tms.connect(url)
    if part == _GROUP:
        groups: Any = importlib.import_module("tests.golden.golden_groups")
        groups.write_groups(opened[0], client, clock.now_ms)
        told = groups.groups_seen(opened[0], clock.now_ms)
        sys.stdout.write(json.dumps(told, indent=1) + "\n")
    else:
        (_PARTS | _TOLD)[part](client, clock)
    if part == "end":
        put_bound(opened[0].store)
    else:
        client.close()
    save()
    os._exit(0)  # what is open stays open


if __name__ == "__main__":
    main()
