"""docs/groups.md: its five minutes are carried out, and the things that it names exist."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

import tms
from api.app import OPERATIONS
from tests.docs.markdown import ROOT, Block, blocks, links
from tests.docs.newcomer import Newcomer, is_as_told
from tests.participants.postgresql_server import PostgresqlServer, find_programs
from tests.waiting import WAIT_S_MAX, wait_until
from tms.core.values.group_settings import DECLARED, DEFAULTS
from tms.core.values.groups import (
    LimitedBy,
)
from tms.postgresql import PostgresqlParticipant

PAGE = "docs/groups.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")


@pytest.fixture
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    with Newcomer(tmp_path_factory.mktemp("groups")) as newcomer:
        newcomer.serve()
        yield newcomer


def test_five_minutes_with_two_terminals(newcomer: Newcomer) -> None:
    """The page is carried out twice; the second time, the topic already exists."""
    told = {"Created topic work.": "Topic work exists already."}
    for is_first in (True, False):
        printed = ""
        for block in blocks(PAGE):
            if block.kind == "python":
                break  # the section ends here
            if block.kind == "sh":
                printed = newcomer.carry_out(block)
                continue
            text = block.text
            for once, again in told.items():
                text = text if is_first else text.replace(once, again)
            assert is_as_told(text, printed), f"{block.place}: it prints\n{printed}"


FIRST, *PROGRAMS = [block for block in blocks(PAGE) if block.kind == "python"]
ORDERS = [b"order %d" % number for number in range(10)]


class Place:
    """The context of the page's programs: the group that the first one creates, and its output."""

    def __init__(self, url: str, database: str = "") -> None:
        self._here = threading.local()
        self._database = database
        self.connections: list[Any] = []
        self.handled: list[bytes] = []
        self.names: dict[str, Any] = {"print": lambda text: self.handled.append(text.encode())}
        assert "http://127.0.0.1:11015" in FIRST.text
        exec(
            compile(FIRST.text.replace("http://127.0.0.1:11015", url), FIRST.place, "exec"),
            self.names,
        )
        self.client: tms.Client = self.names["client"]
        self.orders: tms.Topic = self.names["orders"]
        self.billing: tms.TopicGroup = self.names["billing"]

    def connection(self) -> Any:
        if not hasattr(self._here, "connection"):
            self._here.connection = psycopg.connect(self._database)
            self.connections.append(self._here.connection)
        return self._here.connection

    def is_done(self) -> bool:
        state = self.billing.show().state
        return state.open == state.unread == 0

    def has_billed(self, bills: list[bytes]) -> bool:
        """Return whether all work is done; put the current bills into `bills`."""
        is_done = self.is_done()
        bills[:] = [bill.payload for bill in self.names["bills"].poll(committed=True)]
        return is_done

    def carry_out(self, program: Block, is_done: Callable[[], bool], **names: Any) -> None:
        """Run a program that never ends by itself until it has done its work."""
        names = {**self.names, **names}
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
            self.client.close()
        running.join(WAIT_S_MAX)
        [error] = ended
        assert error is None or "bill" not in names
        assert error is None or "closed" in str(error), error


@pytest.fixture
def place() -> Iterator[Place]:
    place = Place("memory:")
    with place.client:
        yield place


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


def test_the_request_of_the_page_handles_what_is_there(place: Place) -> None:
    place.billing.create()
    place.orders.publish(ORDERS)
    place.carry_out(program_with("take_once"), place.is_done)
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


def test_acks_of_the_page_go_with_a_publish_to_several_topics(place: Place) -> None:
    place.billing.create()
    place.orders.publish(ORDERS)
    bills: list[bytes] = []
    place.carry_out(program_with("publish_all"), lambda: place.has_billed(bills))
    assert bills == ORDERS


@pytest.mark.slow
@pytest.mark.parametrize("words", [("client.transaction",), ("worker", "participants")])
def test_rows_bills_and_acks_of_the_page_agree(database: str, words: tuple[str, ...]) -> None:
    place = Place("memory:", database)
    with place.client, closing(psycopg.connect(database)) as own:
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
    assert len(PROGRAMS) == 7


def test_the_table_of_settings_is_their_declaration() -> None:
    _, _, rest = TEXT.partition("| setting | default | bounds | |\n| --- | --- | --- | --- |\n")
    rows = []
    for name, declared in DECLARED.items():
        default = getattr(DEFAULTS, name)
        shown = f"{default:,}" if type(default) is int else str(default).lower()
        bounds = "" if declared.ge is None else f"{declared.ge:,} to {declared.le:,} "
        rows.append(f"| `{name}` | {shown} | {bounds}| {declared.description} |")
    assert rest.partition("\n\n")[0].splitlines() == rows


def test_requests_and_reasons_are_there() -> None:
    paths = {(each.method, each.path.rpartition("/")[2]) for each in OPERATIONS}
    found = re.findall(r"`(GET|PUT|POST) /([\w/]+)", TEXT)
    asked = [(method, path.rpartition("/")[2]) for method, path in found]
    assert len(asked) >= 6
    assert set(asked) <= paths
    assert [each for each in LimitedBy if f"`{each}`" not in TEXT] == []


def test_links_lead_somewhere() -> None:
    assert [link for link in links(PAGE) if not link.exists()] == []
