"""Changes of transactions in all shards, while shards lose their leaders."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.sharding.three_shards import open_three
from tms.core.errors import NoLeader, OutcomeUnknown, OwnerNotFound
from tms.core.limits import Limits
from tms.core.runtime.clock import SystemClock
from tms.core.services.transactions import StartRequest
from tms.core.values.shards import ShardBy
from tms.settings import Settings

pytestmark = pytest.mark.anyio

CHANGES: dict[str, Callable[[Any, int], Awaitable[object]]] = {
    "forget_owner": lambda transactions, _: transactions.forget_owner("o"),
    "truncate_invalid_ids": lambda transactions, one: transactions.truncate_invalid_ids([one]),
    "truncate_invalid_before": lambda transactions, _: transactions.truncate_invalid_before(2**43),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_only_a_change_that_changed_nothing_says_so(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = await open_three(ShardBy.NAMESPACE, Limits(), SystemClock(), Settings())
    first, places, last = services.in_shard(0).transactions, services.places, services.places.led[2]
    one = (await first.start(StartRequest(namespace="n0"))).transaction_id
    await first.invalidate(one)
    owned = await first.start(StartRequest(namespace="n0", owner="o", sequence=1))
    await first.commit(owned.transaction_id)
    change = getattr(first, name)

    async def change_and_leave(*given: Any, **options: Any) -> Any:
        try:
            return await change(*given, **options)
        finally:
            places.leave(2)

    async def changes() -> object:
        return await CHANGES[name](services.transactions, one)

    places.leave(2)
    with pytest.raises(NoLeader):
        await changes()
    places.lead(2, last)
    monkeypatch.setattr(first, name, change_and_leave)
    with pytest.raises(OutcomeUnknown) as unknown:
        await changes()
    assert unknown.value.detail == {"shard": 2}
    places.lead(2, last)
    with pytest.raises(NoLeader):  # nothing was left to do
        await changes()
    places.lead(2, last)
    monkeypatch.undo()
    if name == "forget_owner":
        with pytest.raises(OwnerNotFound):
            await changes()
    else:
        assert await changes() == 0
    await services.close()
