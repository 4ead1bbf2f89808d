"""Groups in a store without their service: topics, subscriptions, and opaque rows."""

from tables.group_table import StoreGroupLog
from tables.keys import prefix
from tables.store_tables import StoreTables
from tms.core.values.group_settings import GroupSettings
from tms.core.values.store_features import GROUPS
from tms.core.values.subscriptions import SharedSubscription
from tms.core.values.topic import TopicId, TopicMetadata

ORDERS = TopicId("default", "orders")
CREATED = 1_790_000_000_000_000


def create_topic(tables: StoreTables, topic_id: TopicId = ORDERS) -> None:
    assert tables.metadata.replace(None, TopicMetadata(topic_id, 1, 604_800, {}))


def create_group(tables: StoreTables, name: str, topic_id: TopicId = ORDERS) -> StoreGroupLog:
    """Begin a group with a snapshot `begun`, and its subscription."""
    tables.add_feature(GROUPS)
    start = prefix(topic_id, 1)
    tables.subscriptions.read(topic_id, start)
    batch = tables.batch()
    log = tables.groups.begin(batch, start, name, CREATED, b"begun")
    group = SharedSubscription(
        topic_id=topic_id,
        name=name,
        after=None,
        version=CREATED,
        created=CREATED,
        settings=GroupSettings(),
    )
    tables.subscriptions.put(batch, start, group)
    tables.write(batch)
    return log


def append(tables: StoreTables, log: StoreGroupLog, *rows: bytes) -> None:
    for row in rows:
        batch = tables.batch()
        log.append(batch, row)
        tables.write(batch)
