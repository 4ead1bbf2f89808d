"""A store on HBase whose regions split the topics of the cleanup tests."""

import uuid

import pytest

from dev.hbase.servers import HBaseServers
from tables.hbase import creation
from tables.hbase.layout import Place, Salt
from tables.keys import payload_prefix, prefix
from tables.store import MESSAGE, PAYLOAD
from tests.cleanup.expiring_rows import NAMES, NOW_MS
from tests.cleanup.twins import NOW_MS as TWINS_NOW_MS
from tests.cleanup.twins_machine import TOPICS
from tests.contracts.invalid_contract import TOPIC
from tests.tables.hbase.conftest import BUCKETS, gateway_to
from tms.core.values.message import KEY
from tms.core.values.topic import TopicId


@pytest.fixture(scope="module")
def cut_place(servers: HBaseServers) -> Place:
    """A store whose topics are in several regions each."""
    place = Place("127.0.0.1", servers.gateway_port, f"c{uuid.uuid4().hex[:8]}", BUCKETS)
    admin = ("127.0.0.1", servers.admin_port)
    ids = [TopicId("ns", name) for name in NAMES]
    messages = [
        prefix(topic, generation) + KEY.pack(now_ms - 60_000, 1)
        for topic in {*ids, *TOPICS, TOPIC}
        for generation, now_ms in ((1, TWINS_NOW_MS + 70_000), (2, NOW_MS))
    ]
    payloads = [payload_prefix(prefix(topic, 1), (NOW_MS - 60_001) * 1_000_000) for topic in ids]
    for table, keys in ((MESSAGE, messages), (PAYLOAD, payloads)):
        salt = Salt(table, BUCKETS)
        cuts = {*salt.split_keys(), *(salt.of(key) + key for key in keys)}
        creation._create_split(admin, None, place.name_of(table), sorted(cuts))
    creation.create(place, gateway_to(place), admin)
    return place
