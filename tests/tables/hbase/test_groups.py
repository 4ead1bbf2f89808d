"""Groups on a real HBase: members that come late, and a server that takes over."""

from typing import Any

import httpx
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

import tms
from tables.hbase.layout import Place
from tables.hbase.store import HBaseStore
from tables.sealing.store import SealedStore
from tables.sealing.tables import SealedTables
from tests.contracts.store_contract import empty
from tests.messaging.groups.service_of_groups_machine import GroupServiceMachine
from tests.messaging.writes_that_fail import WritesThatFail
from tests.scale import scaled
from tests.servers.server_process import ServerProcess
from tests.tables.hbase.conftest import gateway_to
from tests.waiting import WAIT_S_MAX
from tms.core.values.batch import Batch
from tms.core.values.group_settings import Order

pytestmark = pytest.mark.slow

GROUP = "/v1/namespaces/default/topics/orders/subscriptions/billing"
MESSAGES = 20


class FaultyHBase(WritesThatFail, HBaseStore):
    """A store on HBase whose writes can be made to fail."""

    def write(self, batch: Batch) -> None:
        self.write_or_fail(super().write, batch)


@pytest.mark.parametrize("order", Order)
def test_each_message_is_settled_once(place: Place, order: Order) -> None:
    class OnHBase(GroupServiceMachine):
        def open_store(self) -> Any:
            is_first = not hasattr(self, "store")
            self.store = FaultyHBase(place, gateway_to(place))
            self.store.take_over(lambda _: None)
            if is_first:
                empty(self.store)
            return SealedTables(SealedStore(self.store))

    OnHBase.order = order
    run_state_machine_as_test(
        OnHBase,
        settings=settings(
            max_examples=scaled(2),
            stateful_step_count=20,
            phases=[Phase.explicit, Phase.generate],
        ),
    )


class Members:
    """Members of the group at a server."""

    def __init__(self, server: ServerProcess) -> None:
        self._http = httpx.Client(base_url=server.url, timeout=WAIT_S_MAX, trust_env=False)

    def ask(self, method: str, path: str, **body: Any) -> Any:
        answer = self._http.request(method, path, json=body or None)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def take(self, member: str, messages: int) -> tuple[int, list[str]]:
        taken = self.ask("POST", f"{GROUP}/take", member=member, messages=messages)
        return taken["delivery"], [message["id"] for message in taken["messages"]]

    def settle(self, member: str, **parts: Any) -> Any:
        return self.ask("POST", f"{GROUP}/settle", member=member, **parts)

    def open(self) -> dict[str, tuple[str | None, int]]:
        """Return the holder and the number of failures of each open message, by id."""
        found = self.ask("GET", f"{GROUP}/open")
        return {each["id"]: (each["member"], each["attempts"]) for each in found}

    def close(self) -> None:
        self._http.close()


def test_holders_continue_at_the_server_that_takes_over(
    place: Place, hbase_store: HBaseStore
) -> None:
    assert hbase_store
    url = f"hbase://{place.host}:{place.port}/{place.prefix}"
    with ServerProcess(url, "--hbase-timeout-s", "6") as server:
        with tms.connect(server.url) as client:
            client.topic("bills").create()
            orders = client.topic("orders")
            orders.create()
            orders.group("billing").create(lease_s=600, retry_s=0)
            orders.publish([b"%d" % number for number in range(MESSAGES)])
        members = Members(server)
        (a, ids_a), (b, ids_b) = members.take("a", 5), members.take("b", 3)
        nacks = [{"delivery": a, "ids": ids_a[4:], "delay_s": 0}]
        done = members.settle("a", acks=[{"delivery": a, "ids": ids_a[:2]}], nacks=nacks)
        assert done == {"settled": 2, "refused": []}
        before = members.open()
        members.close()
        server.kill()

    with ServerProcess(url, "--hbase-timeout-s", "6") as server, tms.connect(server.url) as client:
        members = Members(server)
        assert members.open() == before
        assert {each: state for each, state in before.items() if state != (None, 0)} == {
            **dict.fromkeys(ids_a[2:4], ("a", 0)),
            ids_a[4]: (None, 1),
            **dict.fromkeys(ids_b, ("b", 0)),
        }
        c, ids_c = members.take("c", 4)
        assert ids_c[0] == ids_a[4]
        assert not {*ids_a[:4], *ids_b} & {*ids_c}
        late = members.settle("a", acks=[{"delivery": a}])
        assert late == {"settled": 2, "refused": []}
        again = members.settle("a", acks=[{"delivery": a, "ids": ids_a[:1]}])
        assert [each["reason"] for each in again["refused"]] == ["settled"]
        acks = {"namespace": "default", "topic": "orders", "subscription": "billing"}
        acks |= {"member": "b", "delivery": b, "ids": ids_b}  # type: ignore[dict-item]
        members.ask(
            "POST", "/v1/namespaces/default/publish", topics={"bills": ["bill"]}, acks=[acks]
        )
        members.settle("c", acks=[{"delivery": c}])
        d, ids_d = members.take("d", MESSAGES)
        members.settle("d", acks=[{"delivery": d}])
        members.close()
        state = client.topic("orders").group("billing").show().state
        bills = [bill.payload for bill in client.topic("bills").poll(committed=True)]

    given = [*ids_a, *ids_b, *ids_c[1:], *ids_d]
    assert (len(given), len(set(given))) == (MESSAGES, MESSAGES)
    assert (state.open, state.unread) == (0, 0)
    assert bills == [b"bill"]
