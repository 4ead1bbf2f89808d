"""The readers of a topic and their lags: subscriptions and groups that the visitor may see."""

import asyncio
from dataclasses import dataclass, replace
from time import perf_counter

from api.console.visit import Visit
from tms.core.values.groups import Group
from tms.core.values.message import FIRST_ID, id_after, published_ms
from tms.core.values.reading import Reading
from tms.core.values.subscriptions import SubscriptionKind
from tms.core.values.topic import TopicId
from tms.core.values.transaction import ALL_VISIBLE_LATEST
from tms.security.resources import Action, topic_resource
from tms.security.rule_book import SOME

SHOWN_MAX = 100
COUNTED_MAX = 1_000
_AT_ONCE = 100
_PAGES_MAX = 4
_COUNTING_S_MAX = 0.1
"""The time for counting messages; readers not reached then only show their lag in time."""


@dataclass(frozen=True, slots=True)
class TopicReader:
    """A subscription or a group of a topic."""

    name: str
    kind: str
    position: bytes | None
    """The id of the last message that it has finished; None if there is none."""
    behind: int | None = None
    """How many messages follow, without those rolled back; None if they were not counted."""
    is_at_least: bool = False
    """Whether a bound ended the count, so that there may be more."""
    behind_s: float | None = None
    """The age of the position, if any messages follow."""
    is_paused: bool = False
    through: bytes | None = None
    """The id up to which it has read; None if it has read nothing."""
    open: int = 0
    """How many messages of a group are open."""


async def readers_of(
    visit: Visit, topic_id: TopicId, end: bytes | None, now_ms: int
) -> list[TopicReader]:
    """Return the readers of a topic that the visitor may see, those furthest behind first.

    For the first `SHOWN_MAX`, the messages after the position and before `end` are counted, unless
    that is None.
    """
    resource = topic_resource(topic_id.namespace, topic_id.name)
    if not visit.may(Action.SUBSCRIBE, resource, SOME):
        return []
    services, readers = visit.services, []
    every = await services.subscriptions.subscriptions(topic_id)
    groups: dict[str, Group] = {}
    if any(each.kind is SubscriptionKind.SHARED for each in every):
        groups = {each.name: each for each in await services.groups.groups(topic_id)}
    for count, subscription in enumerate(every, 1):
        if count % _AT_ONCE == 0:
            await asyncio.sleep(0)
        if not visit.may(Action.SUBSCRIBE, resource, subscription.name):
            continue
        if subscription.kind is SubscriptionKind.SINGLE:
            behind_s = _age_s(subscription.after, now_ms)
            kind = "subscription"
            readers.append(
                TopicReader(
                    subscription.name,
                    kind,
                    subscription.after,
                    through=subscription.after,
                    behind_s=behind_s,
                )
            )
        elif subscription.name in groups:
            readers.append(_of_group(groups[subscription.name], now_ms))
    readers.sort(key=lambda reader: (reader.position or b"", reader.name))
    ends_at = perf_counter() + _COUNTING_S_MAX
    for at, reader in enumerate(readers[:SHOWN_MAX]):
        if end is None or perf_counter() > ends_at:
            break
        behind, is_at_least = await _behind(visit, topic_id, reader.through, end)
        behind += reader.open
        behind_s = reader.behind_s if behind else None
        readers[at] = replace(reader, behind=behind, is_at_least=is_at_least, behind_s=behind_s)
        await asyncio.sleep(0)
    return readers


def _age_s(position: bytes | None, now_ms: int) -> float | None:
    return None if position is None else max(0, now_ms - published_ms(position)) / 1000


def _of_group(group: Group, now_ms: int) -> TopicReader:
    """Return a group; its state does not count messages that it may not read yet."""
    state = group.state
    return TopicReader(
        name=group.name,
        kind="group",
        position=state.oldest_open or state.through,
        behind=state.unread + state.open,
        behind_s=_age_s(state.through, now_ms) if state.oldest_s is None else state.oldest_s,
        is_paused=group.settings.paused,
        through=state.through,
        open=state.open,
    )


async def _behind(
    visit: Visit, topic_id: TopicId, after: bytes | None, end: bytes
) -> tuple[int, bool]:
    """Return how many messages follow a position, and whether there are more than counted."""
    position = FIRST_ID if after is None else id_after(after)
    count, at = 0, position
    for _ in range(_PAGES_MAX):
        if at >= end or count >= COUNTED_MAX:
            break
        reading = Reading(at, COUNTED_MAX - count, ALL_VISIBLE_LATEST, end)
        page = await visit.services.messaging.page(topic_id, reading)
        count += page.count
        if page.next_position is None:
            return count, False
        at = page.next_position
    return count, at < end
