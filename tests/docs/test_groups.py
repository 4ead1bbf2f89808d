"""docs/groups.md: its five minutes are done, and what it names is there."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import fields
from typing import Any

import psycopg
import pytest

import tms
from api.app import OPERATIONS
from tests.docs.markdown import ROOT, Block, blocks, links
from tests.docs.newcomer import Newcomer
from tests.participants.postgresql_server import PostgresqlServer, find_programs
from tests.waiting import WAIT_S_MAX, wait_until
from tms.core.groups import GroupSettings, LimitedBy
from tms.postgresql import PostgresqlParticipant

PAGE = "docs/groups.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")


@pytest.fixture
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    with Newcomer(tmp_path_factory.mktemp("groups")) as newcomer:
        newcomer.serve()
        yield newcomer


def test_five_minutes_with_two_terminals(newcomer: Newcomer) -> None:
    made, taken, again = [block for block in blocks(PAGE) if block.kind == "sh"][:3]
    address = made.text.splitlines()[:2]
    newcomer.carry_out(made)

    told = newcomer.carry_out(taken._replace(text="\n".join((*address, taken.text))))
    first, second = re.findall(r'"delivery":(\d+)', told)
    assert [each in told for each in ("order 1", "order 2")] == [True, True]
    assert first != second

    text = again.text.replace("DELIVERY", first).replace("wait=60", "wait=5")
    told = newcomer.carry_out(again._replace(text="\n".join((*address, text))))
    assert "order 3" in told
    assert '"settled":1' in told


PROGRAMS = [block for block in blocks(PAGE) if block.kind == "python"]
ORDERS = [b"order %d" % number for number in range(10)]


class Place:
    """What the page's programs stand in: a client, an order topic, and what they call."""

    def __init__(self, client: tms.Client, database: str = "") -> None:
        self._client = client
        self._here = threading.local()
        self._database = database
        self.connections: list[Any] = []
        self.handled: list[bytes] = []
        for name in ("orders", "bills", "audit"):
            client.topic(name).create()
        self.orders = client.topic("orders")
        self.billing = self.orders.group("billing")

    def handle(self, message: tms.GroupMessage | tms.Message, tx: object = None) -> None:
        self.handled.append(message.payload)

    def connection(self) -> Any:
        if not hasattr(self._here, "connection"):
            self._here.connection = psycopg.connect(self._database)
            self.connections.append(self._here.connection)
        return self._here.connection

    def is_done(self) -> bool:
        state = self.billing.show().state
        return state.open == state.unread == 0

    def has_billed(self, bills: list[bytes]) -> bool:
        """Whether all is done; put the bills into a list."""
        is_done = self.is_done()
        bills[:] = [bill.payload for bill in self._client.topic("bills").poll(committed=True)]
        return is_done

    def carry_out(self, program: Block, is_done: Callable[[], bool], **names: Any) -> None:
        """Run a program, which goes on for ever, until it has done its work."""
        names |= {"client": self._client, "billing": self.billing, "handle": self.handle}
        names |= {"tms": tms, "handler": self.handle, "bills": self._client.topic("bills")}
        ended: list[BaseException | None] = []

        def run() -> None:
            try:
                exec(compile(program.text, program.place, "exec"), names)
                ended.append(None)
            except BaseException as error:
                ended.append(error)

        running = threading.Thread(target=run)
        running.start()
        wait_until(lambda: is_done() or not running.is_alive())
        assert is_done(), ended
        if "bill" in names:
            names["bill"].stop()
        else:
            self._client.close()
        running.join(WAIT_S_MAX)
        [error] = ended
        assert error is None or "bill" not in names
        assert error is None or "closed" in str(error), error


@pytest.fixture
def place() -> Iterator[Place]:
    with tms.connect("memory:") as client:
        yield Place(client)


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    programs = find_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with PostgresqlServer(programs) as postgresql:
        with closing(psycopg.connect(postgresql.url, autocommit=True)) as rows:
            rows.execute("CREATE TABLE bills (name TEXT)")
        yield postgresql.url


def program_with(*words: str) -> Block:
    [found] = [each for each in PROGRAMS if all(word in each.text for word in words)]
    return found


def test_the_loop_of_the_page_handles_each(place: Place) -> None:
    place.orders.publish(ORDERS)
    place.carry_out(
        program_with("billing.create"),
        lambda: len(place.handled) == len(ORDERS) and place.is_done(),
    )
    assert place.handled == ORDERS


def test_the_worker_of_the_page_handles_each(place: Place) -> None:
    place.billing.create()
    place.orders.publish(ORDERS)
    place.carry_out(program_with("worker", "handle(message)"), place.is_done)
    assert sorted(place.handled) == ORDERS


def test_the_reader_of_the_page_handles_each(place: Place) -> None:
    audit = place.orders.subscription("audit")
    audit.create()
    [*_, last] = place.orders.publish(ORDERS)
    place.carry_out(program_with(".run(", "handler"), lambda: audit.position().after == last)
    assert place.handled == ORDERS


def test_acks_of_the_page_go_with_a_publish_to_several_topics() -> None:
    with tms.connect("memory:") as client:
        place = Place(client)
        place.billing.create()
        place.orders.publish(ORDERS)
        bills: list[bytes] = []
        place.carry_out(program_with("publish_all"), lambda: place.has_billed(bills))
    assert bills == ORDERS


@pytest.mark.slow
@pytest.mark.parametrize("words", [("client.transaction",), ("worker", "participants")])
def test_rows_bills_and_acks_of_the_page_agree(database: str, words: tuple[str, ...]) -> None:
    with tms.connect("memory:") as client, closing(psycopg.connect(database)) as own:
        place = Place(client, database)
        place.billing.create()
        place.orders.publish(ORDERS)
        bills: list[bytes] = []
        names: dict[str, Any] = {"PostgresqlParticipant": PostgresqlParticipant}
        names["connection"] = place.connection if "worker" in words else own
        place.carry_out(program_with(*words), lambda: place.has_billed(bills), **names)
    for connection in place.connections:
        connection.close()
    with closing(psycopg.connect(database, autocommit=True)) as rows:
        found = rows.execute("DELETE FROM bills RETURNING name").fetchall()
    assert sorted(name.encode() for (name,) in found) == sorted(bills) == ORDERS


def test_every_program_of_the_page_is_run_here() -> None:
    assert len(PROGRAMS) == 6


def test_settings_requests_and_reasons_are_there() -> None:
    for setting in fields(GroupSettings):
        assert f"`{setting.name}`" in TEXT
    paths = {(each.method, each.path.rpartition("/")[2]) for each in OPERATIONS}
    asked = re.findall(r"`(GET|PUT|POST) /(\w+)", TEXT)
    assert len(asked) >= 6
    assert set(asked) <= paths
    assert [each for each in LimitedBy if f"`{each}`" not in TEXT] == []


def test_links_lead_somewhere() -> None:
    assert [link for link in links(PAGE) if not link.exists()] == []
