"""Calls of any kind by a former leader arrive after another server leads.

A proxy between the first server and its gateway holds the request until the second server has
written.
"""

import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from cleanup.hbase.opening import Pruning
from cleanup.ranges import Reason
from dev.hbase.servers import HBaseServers
from dev.processes import HOST, free_ports
from tables.hbase.connections import Gateway
from tables.hbase.creation import create
from tables.hbase.layout import Place
from tables.hbase.store import HBaseStore
from tables.store import MESSAGE
from tests.contracts.store_contract import rows_of
from tests.servers.proxy import Proxy
from tests.servers.server_process import ServerProcess
from tests.tables.hbase.conftest import gateway_to
from tests.waiting import WAIT_S_MAX, wait_until
from tms.core.limits import Limits
from tms.core.runtime.clock import SystemClock

pytestmark = pytest.mark.slow

TOPIC = "/v1/namespaces/default/topics/t"
FLAGS = (
    *("--lease-s", "1.5", "--hbase-gateway-idle-s", "2"),
    *("--hbase-timeout-s", "2", "--hbase-retry-s", "1", "--cleanup-period-s", "1"),
)


class Cluster:
    """Servers on one store, each behind a gateway of its own."""

    def __init__(self, hbase: HBaseServers, quick_port: int, stack: ExitStack) -> None:
        self.quick_port = quick_port
        self.place = Place(HOST, hbase.gateway_port, f"t{uuid.uuid4().hex[:8]}", 1)
        create(self.place, Gateway(HOST, hbase.gateway_port), (HOST, hbase.admin_port))
        site = Path(hbase.folder, "conf", "gateway", "hbase-site.xml").read_text(encoding="utf-8")
        found = re.search(r"clientPort</name><value>(\d+)", site)
        assert found is not None
        self.metadata = f"zk://{HOST}:{found[1]}/{self.place.prefix}?session_timeout_s=4"
        self.http = stack.enter_context(httpx.Client(timeout=WAIT_S_MAX, trust_env=False))
        self.stack = stack

    @property
    def url(self) -> str:
        return f"hbase://{HOST}:{self.place.port}/{self.place.prefix}"

    def server(self) -> "Server":
        """Start a server, and return when it leads."""
        return Server(self)

    def stored(self) -> list[bytes]:
        """Return the payloads that HBase has, visible or not."""
        store = HBaseStore(self.place, gateway_to(self.place))
        payloads = [value[1:] for _, value in rows_of(store, MESSAGE)]
        store.close()
        return payloads

    def pruned(self) -> int:
        """Prune the store like `tms prune`; return how many sealed rows it dropped."""
        pruning = Pruning(self.url, {}, Limits(), SystemClock(), workers=1)
        dropped = sum(each.dropped for each in pruning.steps() if each.reason is Reason.SEALED)
        pruning.close()
        return dropped


class Server:
    """A server that leads, with its own gateway."""

    def __init__(self, cluster: Cluster) -> None:
        self.gateway = cluster.stack.enter_context(Proxy(cluster.quick_port))
        [port] = free_ports(1)
        store = f"hbase://{HOST}:{self.gateway.port}/{cluster.place.prefix}"
        advertise = ("--advertise", f"http://{HOST}:{port}", "--metadata", cluster.metadata)
        self.process = ServerProcess(store, *advertise, *FLAGS, port=port)
        cluster.stack.callback(self.kill)
        self.http = cluster.http
        wait_until(lambda: self.get("/v1/cluster").get("role") == "leader")

    def kill(self) -> None:
        self.process.kill()

    def get(self, path: str) -> dict[str, object]:
        told: dict[str, object] = self.http.get(self.process.url + path).json()
        return told

    def do(self, verb: str, path: str, body: object = None) -> httpx.Response:
        answer = self.http.request(verb, self.process.url + path, json=body)
        assert answer.status_code == 200, answer.text
        return answer

    def publish(self, payload: str, pointer: int | None = None) -> None:
        body: dict[str, object] = {"messages": [payload]}
        if pointer is not None:
            body["transactionWritePointer"] = str(pointer)
        self.do("POST", f"{TOPIC}/publish", body)

    def payloads(self, *, committed: bool = False) -> list[str]:
        query = "?isolation=committed" if committed else ""
        told = self.do("POST", f"{TOPIC}/poll{query}", {"limit": 1000}).json()
        ids = [each["id"] for each in told]
        assert ids == sorted(set(ids))
        return [each["payload"] for each in told]

    def ask_and_die(self, verb: str, path: str, body: object = None, *, held: list[bytes]) -> None:
        """Send a request whose call to HBase is held, and kill the server."""
        self.gateway.catch(*held)

        def ask() -> None:
            with (
                httpx.Client(timeout=WAIT_S_MAX, trust_env=False) as http,
                pytest.raises(httpx.HTTPError),
            ):
                http.request(verb, self.process.url + path, json=body)

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        assert self.gateway.caught.wait(WAIT_S_MAX)
        self.kill()
        asking.join(WAIT_S_MAX)


@pytest.fixture
def cluster(servers: HBaseServers, quick_port: int) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(servers, quick_port, stack)


@pytest.fixture
def first(cluster: Cluster) -> Server:
    """The first leader, which has published."""
    first = cluster.server()
    first.do("PUT", TOPIC)
    first.publish("before")
    return first


def test_a_late_publish_is_never_seen_and_cleaned_up(cluster: Cluster, first: Server) -> None:
    body = {"messages": ["late"]}
    first.ask_and_die("POST", f"{TOPIC}/publish", body, held=[b"mutateRows", b"late"])
    second = cluster.server()
    second.publish("after")
    assert second.payloads() == ["before", "after"]

    first.gateway.send_caught()

    assert sorted(cluster.stored()) == [b"after", b"before", b"late"]
    assert second.payloads() == ["before", "after"]
    second.kill()
    third = cluster.server()
    third.publish("at last")
    assert third.payloads() == ["before", "after", "at last"]
    third.kill()
    assert cluster.pruned() == 1
    assert sorted(cluster.stored()) == [b"after", b"at last", b"before"]


def test_a_late_publish_to_a_topic_that_was_only_read(cluster: Cluster, first: Server) -> None:
    body = {"messages": ["late"]}
    first.ask_and_die("POST", f"{TOPIC}/publish", body, held=[b"mutateRows", b"late"])
    second = cluster.server()
    assert second.payloads() == ["before"]

    first.gateway.send_caught()

    assert second.payloads() == ["before"]
    second.kill()
    assert cluster.server().payloads() == ["before"]


def test_a_late_commit_is_none(cluster: Cluster, first: Server) -> None:
    started = first.do("POST", "/v1/transactions?codec=false", {"timeout_s": 3600}).json()
    transaction = f"/v1/transactions/{started['transaction_id']}"
    first.publish("in a transaction", started["write_pointer"])
    table = cluster.place.name_of("transaction")
    first.ask_and_die("POST", f"{transaction}/commit", held=[b"mutateRows", table])
    second = cluster.server()
    second.do("POST", f"{transaction}/invalidate")
    second.publish("after")

    first.gateway.send_caught()

    _check_invalid(second, transaction)
    second.kill()
    _check_invalid(cluster.server(), transaction)


def _check_invalid(server: Server, transaction: str) -> None:
    assert server.get(transaction)["status"] == "invalid"
    assert server.payloads(committed=True) == ["before", "after"]
    started = server.do("POST", "/v1/transactions?codec=false").json()
    server.do("POST", f"/v1/transactions/{started['transaction_id']}/commit")


def test_what_is_stored_late_is_not_a_part_of_what_is_published(
    cluster: Cluster, first: Server
) -> None:
    started = first.do("POST", "/v1/transactions?codec=false", {"timeout_s": 3600}).json()
    pointer = started["write_pointer"]
    body = {"messages": ["stored"], "transactionWritePointer": pointer}
    first.do("POST", f"{TOPIC}/store", body)
    table = cluster.place.name_of("payload")
    late = {**body, "messages": ["late"]}
    first.ask_and_die("POST", f"{TOPIC}/store", late, held=[b"mutateRows", table])
    second = cluster.server()
    second.do("POST", f"{TOPIC}/publish", {"messages": [], "transactionWritePointer": pointer})
    second.do("POST", f"/v1/transactions/{started['transaction_id']}/commit")
    assert second.payloads(committed=True) == ["before", "stored"]

    first.gateway.send_caught()

    assert second.payloads(committed=True) == second.payloads() == ["before", "stored"]
    second.kill()
    assert cluster.server().payloads(committed=True) == ["before", "stored"]


def test_a_late_move_of_a_position_is_none(cluster: Cluster, first: Server) -> None:
    path = f"{TOPIC}/subscriptions/s"
    version = first.do("PUT", path).json()["version"]
    table = cluster.place.name_of("subscription")
    move = {"after": "01" * 20, "expected_version": version}
    first.ask_and_die("POST", f"{path}/advance", move, held=[b"mutateRows", table])
    second = cluster.server()
    assert second.get(path)["version"] == version
    moved = second.do("POST", f"{path}/advance", {**move, "after": "02" * 20}).json()

    first.gateway.send_caught()

    assert second.get(path) == moved
    second.kill()
    third = cluster.server()
    assert third.get(path) == moved
    assert moved["after"] == "02" * 20
    third.do("DELETE", path)
    third.kill()
    assert not cluster.server().get(f"{TOPIC}/subscriptions")


def test_a_rollback_after_another_led_is_refused(cluster: Cluster, first: Server) -> None:
    started = first.do("POST", "/v1/transactions?codec=false", {"timeout_s": 3600}).json()
    body = {"messages": ["undone"], "transactionWritePointer": started["write_pointer"]}
    published = first.do("POST", f"{TOPIC}/publish", body).json()
    first.kill()
    second = cluster.server()

    answer = second.http.post(f"{second.process.url}{TOPIC}/rollback", json=published)

    assert answer.status_code == 409
    assert answer.json()["error"]["code"] == "rollback_of_earlier_leader"
    ended = second.do("POST", f"/v1/transactions/{started['transaction_id']}/abort").json()
    assert ended["status"] == "invalid"
    assert second.payloads(committed=True) == ["before"]


def test_a_late_change_of_a_topic_is_none(cluster: Cluster, first: Server) -> None:
    first.ask_and_die("DELETE", TOPIC, held=[b"checkAndPut"])
    second = cluster.server()
    second.publish("after")

    first.gateway.send_caught()

    assert second.payloads() == ["before", "after"]
    second.kill()
    assert cluster.server().payloads() == ["before", "after"]


def test_a_late_prune_takes_only_what_had_expired(cluster: Cluster, first: Server) -> None:
    """Expired messages are not shown again, whether or not they are deleted by then."""
    first.publish("expires too")
    first.publish("expires last")
    first.gateway.catch(b"mutateRows", cluster.place.name_of(MESSAGE), b"default:t:")
    first.do("PUT", f"{TOPIC}/properties", {"ttl": 1})
    assert first.gateway.caught.wait(WAIT_S_MAX)
    first.kill()
    second = cluster.server()
    second.do("PUT", f"{TOPIC}/properties", {"ttl": 3600})
    second.publish("after")
    assert second.payloads() == ["after"]

    first.gateway.send_caught()

    assert second.payloads() == ["after"]
    second.kill()
    assert cluster.server().payloads() == ["after"]
