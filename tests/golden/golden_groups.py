"""The groups of a golden store: written through the tables, and described after they are read."""

from dataclasses import asdict
from hashlib import blake2b
from typing import Any

import tms
from tables.keys import prefix
from tables.sealing.groups import shared_in
from tables.store_tables import StoreTables
from tms.core.values.group_settings import GroupSettings, Order
from tms.core.values.groups import (
    Acks,
    Nacks,
    Settle,
)
from tms.core.values.store_features import GROUPS
from tms.core.values.subscriptions import SharedSubscription
from tms.core.values.topic import TopicId
from tms.messaging.groups.commands import GroupCommands
from tms.messaging.groups.edits import decode_row
from tms.messaging.groups.open_entries import Taker
from tms.messaging.groups.snapshots import decode_snapshot, encode_snapshot, freeze
from tms.messaging.groups.state import OpenMessages

WORKERS = TopicId("default", "orders"), "workers", GroupSettings(lease_s=60)
BY_KEY = TopicId("default", "framed"), "by-key", GroupSettings(order=Order.KEY, retry_s=5)
FIRST, SECOND = Taker("w-1", None), Taker("w-2", "alice")


class GroupInStore:
    """A group that is begun, and works through a topic's committed messages."""

    def __init__(
        self, tables: StoreTables, place: tuple[TopicId, str, GroupSettings], now_ms: int
    ) -> None:
        self.tables, self.now_ms = tables, now_ms
        topic_id, name, settings = place
        created = now_ms * 1000
        state = OpenMessages(by_key=settings.order is Order.KEY)
        state.floor = state.last_delivery = created
        self.commands = GroupCommands(state, settings, now_ms)
        start = prefix(topic_id, 1)
        tables.subscriptions.read(topic_id, start)
        group = SharedSubscription(
            topic_id=topic_id,
            name=name,
            after=None,
            version=created,
            created=created,
            settings=settings,
        )
        batch = tables.batch()
        self.log = tables.groups.begin(batch, start, name, created, self.snapshot())
        tables.subscriptions.put(batch, start, group)
        tables.write(batch)

    def snapshot(self) -> bytes:
        return encode_snapshot(freeze(self.commands.state))

    def read(self, messages: list[tms.Message]) -> None:
        ids = [each.id for each in messages]
        digests = [blake2b(each.key or each.id, digest_size=8).digest() for each in messages]
        by_key = self.commands.state.by_key
        self.commands.read(ids[-1], ids, digests if by_key else (), self.now_ms)

    def take(self, taker: Taker, count: int, sequence: int | None = None) -> int:
        """Lease messages; return the delivery."""
        reserved = self.commands.reserve(count, self.now_ms)
        assert len(reserved.ids) == count
        return self.commands.lease(
            reserved,
            reserved.ids,
            taker,
            lease_ms=60_000,
            sequence=sequence,
            now_ms=self.now_ms,
        )

    def settle(self, taker: Taker, settle: Settle) -> None:
        assert not self.commands.settle(taker, settle, self.now_ms).refused

    def flush(self) -> None:
        row = self.commands.take_row()
        assert row is not None
        batch = self.tables.batch()
        self.log.append(batch, row)
        self.tables.write(batch)


def write_groups(tables: StoreTables, client: Any, now_ms: int) -> None:
    """Give two topics a group each, with all that a log and a snapshot can say of it."""
    tables.add_feature(GROUPS)
    workers = GroupInStore(tables, WORKERS, now_ms)
    workers.read(list(client.topic("orders").poll(committed=True))[:5])
    first = workers.take(FIRST, 3, sequence=1)
    workers.flush()
    ids = workers.commands.state.ids_of(first)
    workers.settle(FIRST, Settle(acks=[Acks(first, ids[:1])], nacks=[Nacks(first, ids[1:2])]))
    second = workers.take(SECOND, 2)
    workers.flush()
    workers.log.put_snapshot(workers.log.next_number, workers.snapshot())
    workers.settle(SECOND, Settle(acks=[Acks(second)]))
    workers.flush()
    assert workers.log.drop(1) == 1
    by_key = GroupInStore(tables, BY_KEY, now_ms)
    by_key.read(list(client.topic("framed").poll(committed=True)))
    by_key.take(FIRST, 2)
    by_key.flush()


def groups_seen(tables: StoreTables, now_ms: int) -> dict[str, Any]:
    """Return as JSON has it what the groups of a store say."""
    told: dict[str, Any] = {}
    for topic_id, *_ in (BY_KEY, WORKERS):
        start = prefix(topic_id, 1)
        for _, group in shared_in(tables.store, start):
            stored = tables.groups.read(start, group.name, group.created)
            by_key = group.settings.order is Order.KEY
            state = decode_snapshot(stored.snapshot, now_ms, by_key=by_key)
            for row in stored.rows:
                for edit in decode_row(row, by_key=by_key):
                    state.apply(edit, now_ms)
            told[f"{topic_id}/{group.name}"] = {
                "created": group.created,
                "version": group.version,
                "after": group.after,
                "settings": asdict(group.settings),
                "numbers": [stored.number, stored.log.next_number],
                "has_older": stored.log.has_older,
                **_state(state),
            }
    return told


def _state(state: OpenMessages) -> dict[str, Any]:
    return {
        "through": None if state.through is None else state.through.hex(),
        "deliveries_given": [state.floor, state.last_delivery],
        "open": {
            key.hex(): [
                each.attempts,
                each.ends,
                each.not_before_ms,
                each.delivery,
                None if each.digest is None else each.digest.hex(),
            ]
            for key, each in state.open.items()
        },
        "deliveries": {
            str(number): [
                *each.taker,
                each.sequence,
                each.lease_ms,
                [key.hex() for key in state.ids_of(number)],
            ]
            for number, each in state.deliveries.items()
        },
    }
