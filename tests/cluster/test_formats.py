"""The format of a shared store is raised when all servers know it, and not before."""

import asyncio
from collections.abc import Sequence

import pytest

from tables.hbase.layout import FORMAT
from tms.cluster.formats import RAISED_FORMAT, STORE_FORMAT, raise_when_all_know
from tms.core.errors import MetadataUnavailable
from tms.core.services.cluster import Instance
from tms.metadata.cache import JsonCodec

OLD = b'{"id":1,"address":"http://1","version":"0.1.0","since_ms":1}'
"""The entry of a server of a version without store formats."""

pytestmark = pytest.mark.anyio


def test_both_places_name_the_same_format() -> None:
    assert (RAISED_FORMAT, STORE_FORMAT) == (FORMAT, FORMAT + 1)


async def test_the_leader_waits_for_the_last_older_server_to_go() -> None:
    codec = JsonCodec(Instance)
    old = codec.decode(OLD)
    new = Instance(id=2, address="http://2", version="2", since_ms=1, store_format=STORE_FORMAT)
    newer = Instance(id=3, address="http://3", version="3", since_ms=1, store_format=99)
    looks: list[Sequence[Instance] | None] = [[old, new], None, [new, old, newer], [new, newer]]
    raised = 0

    async def instances() -> Sequence[Instance]:
        found = looks.pop(0)
        if found is None:
            raise MetadataUnavailable(reason="a test")
        return found

    async def raise_format() -> None:
        nonlocal raised
        raised += 1
        if raised == 1:
            looks.append([new])
            raise MetadataUnavailable(reason="the answer was lost")

    await asyncio.wait_for(raise_when_all_know(instances, raise_format, look_s=0), 10)

    assert (looks, raised) == ([], 2)
    assert codec.decode(codec.encode(new)) == new
