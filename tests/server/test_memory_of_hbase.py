"""Errors and findings name an HBase that runs out of memory. The HBase is simulated."""

from collections.abc import AsyncIterator
from typing import Any

import happybase  # noqa: F401  what follows needs it imported first
import pytest
from Hbase_thrift import IOError as HBaseError

from tests.simulation.gateway import Rows
from tests.simulation.leaders import Leader
from tests.simulation.leaders_world import START_MS
from tests.waiting import until
from tms.core.errors import OutcomeUnknown, StoreUnavailable
from tms.core.services.findings import FindingKind
from tms.core.values.topic import TopicId

pytestmark = pytest.mark.anyio
TOPIC = TopicId("default", "t")
TRACE = b"""\
org.apache.hadoop.hbase.client.RetriesExhaustedException: Failed after attempts=3, exceptions:
2026-11-29T02:25:48.000Z, RpcRetryingCaller{}, java.io.IOException: java.io.IOException: %s
\tat org.apache.hadoop.hbase.ipc.RpcServer.call(RpcServer.java:479)
"""


@pytest.fixture
async def leader(anyio_backend: str) -> AsyncIterator[Leader]:
    leader = Leader(Rows(), None, START_MS)
    await leader.open()
    await leader.services.messaging.create_topic(TOPIC)
    yield leader
    await leader.end()


@pytest.mark.parametrize(
    ("cause", "lacks_memory"),
    [
        (b"java.lang.OutOfMemoryError: Java heap space", True),
        (b"org.apache.hadoop.hbase.RegionTooBusyException: Over memstore limit=16.0M", True),
        (b"java.net.ConnectException: Connection refused", False),
    ],
)
async def test_errors_and_findings_say_that_hbase_lacks_memory(
    leader: Leader,
    monkeypatch: pytest.MonkeyPatch,
    cause: bytes,
    lacks_memory: bool,  # noqa: FBT001  parametrized
) -> None:
    services = leader.services
    assert list(services.findings()) == []

    def refuse(_: Any) -> Any:
        raise HBaseError(TRACE % cause)

    with monkeypatch.context() as broken:
        broken.setattr(leader.gateway, "change", refuse)
        with pytest.raises(OutcomeUnknown) as failed:
            await services.messaging.publish(TOPIC, [b"1"])
        with pytest.raises(StoreUnavailable) as refused:
            await services.messaging.publish(TOPIC, [b"2"])
        [finding] = services.findings()
    for error in (failed.value, refused.value):
        assert ("HBase is out of memory" in str(error)) == lacks_memory
    assert finding.kind is FindingKind.WRITES_REFUSED
    assert ("HBase is out of memory" in finding.text) == lacks_memory
    assert ("more heap" in finding.advice) == lacks_memory
    await until(lambda: not services.findings())
