"""The cost of loading a topic does not grow with the number of topics in memory."""

import sys
from types import FrameType
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tables.memory import MemoryStore
from tables.store_tables import StoreTables
from tests.manual_clock import ManualClock
from tests.messaging.conftest import NOW_MS
from tms.core.limits import Limits
from tms.core.values.topic import TopicId
from tms.messaging import loaded_topics
from tms.messaging.service import Service
from tms.messaging.store_runtime import StoreRuntime
from tms.messaging.write_requests import Writing

pytestmark = pytest.mark.anyio


class CountedLines:
    """Counts the lines of one module that this thread executes."""

    def __init__(self, file: str | None) -> None:
        self._file = file
        self.count = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> "CountedLines | None":
        if frame.f_code.co_filename != self._file:
            return None
        self.count += event == "line"
        return self


async def lines_to_load_another(in_memory: int) -> int:
    """Return the lines run to load a topic while the maximum number is in memory."""
    limits, registry = Limits(topics_in_memory_max=in_memory), CollectorRegistry()
    tables = StoreTables(MemoryStore())
    service = Service(Writing(StoreRuntime(tables, limits, ManualClock(NOW_MS), registry)))
    *ids, another = [TopicId("default", f"t{number}") for number in range(in_memory + 1)]
    for topic_id in (*ids, another):
        await service.create_topic(topic_id)
    for topic_id in ids:
        await service.publish(topic_id, [b"x"])
    lines = CountedLines(loaded_topics.__file__)
    before = sys.gettrace()
    sys.settrace(lines)
    await service.publish(another, [b"x"])
    sys.settrace(before)
    assert registry.get_sample_value("tms_topics_in_memory") == in_memory
    await service.close()
    return lines.count


async def test_the_cost_of_loading_one() -> None:
    few = await lines_to_load_another(10)

    assert few > 10
    assert await lines_to_load_another(300) == few
