"""The groups in `everything`: members of a server that is killed at any moment.

A message acknowledged alone or by a commit is never delivered again, whatever was killed in
between. Now and then a good worker drains a group: by then the group has delivered every message
that committed readers surely saw.
"""

from functools import partial

from tests.messaging.groups.followed import Followed
from tests.simulation.everything_acts import LOST, Acts, Killed, now_ms
from tests.simulation.everything_model import Difference, Fate, TopicModel, Tx
from tms.core.errors import AckRefused, RequestError, SubscriptionNotFound, TopicNotFound
from tms.core.services.commits import CommitRequest
from tms.core.values.group_settings import GroupSettings, Order
from tms.core.values.groups import (
    Acks,
    CommitAcks,
    Groups,
    Nacks,
    Releases,
    SeekTo,
    Settle,
    Take,
    Taken,
)

GROUPS = {"a": ("g", Order.NONE), "b": ("k", Order.KEY)}
"""The group of each topic; few, as only as many are loaded as topics are in memory."""
MEMBERS = ("a", "b", "c")
WORKER = "good"
LATEST = 3


class GroupActs:
    """The acts on groups, and what is known of them."""

    def __init__(self, acts: Acts) -> None:
        self.acts = acts
        self.chance = acts.chance

    def ask(self, groups: Groups) -> None:
        """Send requests to these from now on."""
        self.groups = groups

    async def change_group(self) -> None:
        """Create a group, delete it, or make it start again."""
        topic = self.acts.topics[self.chance.choice(list(GROUPS))]
        if not topic.exists:
            return
        topic_id, (name, order) = self.acts.id_of(topic), GROUPS[topic.name]
        look = partial(self.group_known, topic)
        if topic.group is None:
            settings = GroupSettings(order=order, lease_s=1, retry_s=0, retry_s_max=0)
            await self.acts.asked(self.groups.create_group(topic_id, name, settings), look)
            topic.group = Followed(keeps_all=False)
        elif self.chance.random() < 0.3:
            await self.acts.asked(self.groups.delete_group(topic_id, name), look)
            topic.group = None
        elif self.chance.random() < 0.3:
            try:
                await self.acts.asked(self.groups.seek(topic_id, name, SeekTo.START))
            except Killed:
                topic.group.sought(is_sure=False)
                raise
            topic.group.sought(is_sure=True)

    async def group_known(self, topic: TopicModel) -> None:
        """Find out whether a group exists that was being created or deleted."""
        name, _ = GROUPS[topic.name]
        try:
            await self.acts.asked(self.groups.group(self.acts.id_of(topic), name))
        except (SubscriptionNotFound, TopicNotFound):
            topic.group = None
        else:
            topic.group = topic.group or Followed(keeps_all=False)

    def existing(self) -> tuple[TopicModel, Followed] | None:
        found = [(each, each.group) for each in self.acts.topics.values() if each.group is not None]
        return self.chance.choice(found) if found else None

    async def take(self) -> None:
        """Publish something, and take; the messages taken may never be settled."""
        found = self.existing()
        if found is not None:
            topic, group = found
            if self.chance.random() < 0.5:
                await self.acts.publish(topic)
            is_anew = self.chance.random() < 0.1
            take = Take(self.chance.choice(MEMBERS), self.chance.choice((1, 5, 30)), anew=is_anew)
            await self._taken(topic, group, take)

    async def _taken(self, topic: TopicModel, group: Followed, take: Take) -> Taken:
        name, _ = GROUPS[topic.name]
        taken = await self.acts.asked(self.groups.take(self.acts.id_of(topic), name, take))
        dead = (Fate.DEAD, Fate.OPEN)
        committed = {
            each.payload: each
            for each in topic.entries
            if each.of.tx is None or each.of.tx.fate not in dead
        }
        for message in group.note(take.member, taken, committed):
            one = committed[message.payload].of
            one.is_sure = True
            if one.tx is not None:
                one.tx.fate = Fate.COMMITTED
        return taken

    async def settle(self) -> None:
        """Settle the messages of a recent take, or of an earlier one."""
        found = self.existing()
        given = None if found is None else found[1].latest(self.chance.randrange(LATEST))
        if found is None or given is None:
            return
        topic, group = found
        ids = given.ids[self.chance.randrange(2) :]
        ways = {
            "ack": Settle(acks=[Acks(given.delivery, ids)]),
            "nack": Settle(nacks=[Nacks(given.delivery, ids)]),
            "release": Settle(releases=[Releases(given.delivery)]),
            "extend": Settle(extend=[]),
            "leave": Settle(leave=True),
        }
        [how] = self.chance.choices(list(ways), (6, 1, 1, 1, 1))
        await self._settled(topic, group, given.member, ways[how], ids if how == "ack" else [])

    async def _settled(
        self, topic: TopicModel, group: Followed, member: str, settle: Settle, acked: list[bytes]
    ) -> None:
        name, _ = GROUPS[topic.name]
        work = self.groups.settle(self.acts.id_of(topic), name, member, settle)
        try:
            group.acked(acked, await self.acts.asked(work))
        except Killed:
            group.acked(acked, None)
            raise

    async def commit_with_acks(self) -> None:
        """Commit a transaction, with the acks of messages that were taken."""
        found, acts = self.existing(), self.acts
        given = None if found is None else found[1].latest(self.chance.randrange(LATEST))
        if found is None or given is None or not acts.open:
            return
        topic, group = found
        tx = self.chance.choice(acts.open)
        assert tx.id is not None
        name, _ = GROUPS[topic.name]
        acks = CommitAcks(acts.id_of(topic), name, given.member, given.delivery, given.ids)
        try:
            await acts.transactions.commit(tx.id, CommitRequest(acks=[acks]))
        except AckRefused:
            return  # it continues
        except RequestError as error:
            acts.open.remove(tx)
            tx.fate = Fate.DEAD
            if now_ms() < tx.open_until_ms:
                raise Difference(f"{tx.id}: its commit was refused: {error}") from error
        except LOST as error:
            acts.open.remove(tx)
            tx.fate, tx.open_until_ms = Fate.UNKNOWN, 0
            acts.settle.append(partial(self.ended, tx, group, set(given.ids) - group.maybe))
            group.acked(given.ids, None)
            raise Killed from error
        else:
            acts.open.remove(tx)
            tx.fate = Fate.COMMITTED
            group.acknowledge(given.ids)
            acts.counts["acks of commits"] += len(given.ids)

    async def ended(self, tx: Tx, group: Followed, ids: set[bytes]) -> None:
        """Find out whether a commit was done: its acks hold if and only if it was."""
        await self.acts.ended(tx, [])
        if tx.fate is Fate.COMMITTED:
            group.acknowledge(ids)
        elif tx.fate is Fate.OPEN:
            group.maybe -= ids
        self.acts.counts["acks of commits that were killed"] += 1

    async def drain(self) -> None:
        """Let a good worker settle everything that remains."""
        found = self.existing()
        if found is None:
            return
        topic, group = found
        for member in (*MEMBERS, WORKER):
            await self._settled(topic, group, member, Settle(leave=True), [])
        began = now_ms()
        entries = list(topic.entries)
        while (taken := await self._taken(topic, group, Take(WORKER, 1_000))).delivery is not None:
            ids = group.given[-1].ids
            acks = Settle(acks=[Acks(taken.delivery, ids)])
            await self._settled(topic, group, WORKER, acks, ids)
        if taken.limited_by is not None:
            return
        done = {group.seen[each] for each in group.acknowledged | group.maybe}
        for payload in topic.surely_committed(entries, (began, now_ms())):
            if payload not in done:
                raise Difference(f"{topic.name}: {payload!r} was never given")
        self.acts.counts["drained"] += 1
