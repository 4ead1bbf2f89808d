"""The lag of groups, if there are more groups than one pass can count."""

import pytest
from prometheus_client import CollectorRegistry

from tests.manual_clock import ManualClock
from tms.core.limits import Limits
from tms.core.values.table_rows import StoredPosition
from tms.core.values.topic import TopicId
from tms.messaging.groups.lags import SECONDS_MAX
from tms.messaging.lags import Lag, SubscriptionLags
from tms.server.node import open_services

TOPIC = TopicId("ns", "t")
NAMES = ["a", "b", "c"]
MESSAGES = 50


@pytest.mark.anyio
async def test_all_groups_are_reported_if_a_look_has_time_to_count_one(
    monkeypatch: pytest.MonkeyPatch, anyio_backend: str
) -> None:
    clock = ManualClock(1_790_000_000_000)
    count = SubscriptionLags.behind

    async def slow(
        self: SubscriptionLags, stored: StoredPosition, *, is_glance: bool = False
    ) -> Lag | None:
        if not is_glance:
            clock.advance(int(2000 * SECONDS_MAX))
        return await count(self, stored, is_glance=is_glance)

    monkeypatch.setattr(SubscriptionLags, "behind", slow)
    services = await open_services(
        "memory:",
        limits=Limits(cache_bytes_max=0),
        clock=clock,
        registry=CollectorRegistry(),
    )
    try:
        await services.messaging.create_topic(TOPIC)
        for name in NAMES:
            await services.groups.create_group(TOPIC, name)
        await services.messaging.publish(TOPIC, [b"x"] * MESSAGES)
        for counted in (1, 2, 3, 3):
            await services.refresh_lags()
            found = {each.name: each for each in services.lags()}
            assert sorted(found) == NAMES
            assert all(each.messages for each in found.values())
            whole = [each.messages for each in found.values() if not each.is_at_least]
            assert whole == [MESSAGES] * counted
    finally:
        await services.close()
