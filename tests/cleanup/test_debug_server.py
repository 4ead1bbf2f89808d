"""`tms debug` on a running server, and the same over REST."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cleanup.inspection_service import Partwise
from tables.keys import prefix, transactional_start
from tables.store import MESSAGE
from tests.api.rest import NOW_MS, TOPIC, Rest, live, refusal
from tests.cli.conftest import run_command
from tests.servers.server_process import ServerProcess
from tms.cli.inspected import inspected
from tms.cli.target import Target
from tms.client import connect
from tms.core.services.transactions import StartRequest
from tms.core.values.inspection import ROWS_MAX
from tms.core.values.message import KEY
from tms.core.values.topic import TopicId

POINTER = NOW_MS * 1_000_000
DEBUG = "/v1/debug"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with a plain, a committed and an invalid message."""
    folder: Path = tmp_path_factory.mktemp("debugged")
    with ServerProcess(f"leveldb:{folder}/data") as server:
        with connect(server.url) as client:
            topic = client.topic("orders")
            topic.create()
            topic.publish(b"plain")
            with client.transaction() as tx:
                topic.publish(b"committed", tx)
            invalid = client.transactions.start(StartRequest())
            topic.publish(b"dead", invalid)
            client.transactions.invalidate(invalid.transaction_id)
        yield server
        assert server.stop() == 0


def debug(server: ServerProcess, *arguments: str) -> tuple[int, str, str]:
    return run_command("debug", *arguments, "--url", server.url)


def lines(server: ServerProcess, *arguments: str) -> list[Any]:
    code, out, err = debug(server, *arguments)
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def test_tables_of_a_server(server: ServerProcess) -> None:
    [tables] = lines(server, "tables", "--json")
    rows = {table["table"]: table["rows"] for table in tables}

    assert (rows["message"], rows["metadata"]) == (3, 1)
    assert rows["transaction"] > 0


def test_rows_of_a_server(server: ServerProcess) -> None:
    rows = lines(server, "rows", "--topic", "orders")

    assert [row["kind"] for row in rows] == ["plain", "transactional", "transactional"]
    assert len(lines(server, "rows", "--limit", "2")) == 2
    code, out, err = debug(server, "rows", "--topic", "other")
    assert (code, out) == (3, "")
    assert "no topic other" in err
    assert lines(server, "export", "--table", "message") == rows


def test_a_message_of_a_server_explained(server: ServerProcess) -> None:
    rows = lines(server, "rows", "--topic", "orders")

    assert "no transaction" in debug(server, "explain", "orders", rows[0]["id"])[1]
    assert "committed" in debug(server, "explain", "orders", rows[1]["id"])[1]
    assert "transaction is invalid" in debug(server, "explain", "orders", rows[2]["id"])[1]
    assert debug(server, "explain", "orders", "12")[0] == 4
    code, out, err = debug(server, "explain", "other", rows[0]["id"])
    assert (code, out) == (3, "")
    assert "no topic other" in err


def test_a_message_is_explained_by_how_it_stands_in_groups(server: ServerProcess) -> None:
    with connect(server.url) as client:
        topic = client.topic("jobs")
        topic.create()
        first, second = topic.publish([b"1", b"2"])
        group = topic.group("workers")
        group.create(retry_s=3600, retry_s_max=3600)
        taken = group.take()
        next(taken).nack(reason="no such customer")
        told = debug(server, "explain", "jobs", first.hex())[1]
        assert "In group workers it is open (waiting); 1 attempt failed; " in told
        assert " held it last; the last one failed because: no such customer." in told
        next(taken).ack()
        told = debug(server, "explain", "jobs", second.hex())[1]
        assert "In group workers it is not open: it is settled" in told
        group.set(paused=True)
        [third] = topic.publish([b"3"])
        told = debug(server, "explain", "jobs", third.hex())[1]
        assert "In group workers it is not read yet." in told
        topic.delete()
        told = debug(server, "explain", "jobs", third.hex())[1]
        assert "The topic is deleted." in told
        assert "In group" not in told


def test_a_message_behind_a_transaction_in_progress_is_explained(server: ServerProcess) -> None:
    with connect(server.url) as client:
        topic = client.topic("waiting")
        topic.create()
        with client.transaction(timeout_s=1000) as tx:
            [open_one] = topic.publish(b"in progress", tx)
            [behind] = topic.publish(b"behind")
            said = f"stopped at transaction {tx.transaction_id} of client {socket.gethostname()}:"
            for message_id in (open_one, behind):
                told = debug(server, "explain", "waiting", message_id.hex())[1]
                assert said in told
                assert "old, times out in 16 min." in told
                assert "all readers get it" not in told
        assert "all readers get it" in debug(server, "explain", "waiting", behind.hex())[1]
        topic.delete()


def test_bounds_and_a_check_of_a_server(server: ServerProcess) -> None:
    assert "On the invalid list: 1 write pointer." in debug(server, "bounds")[1]
    assert debug(server, "verify")[:2] == (0, "All tables are consistent.\n")


@pytest.mark.anyio
async def test_commands_at_once_wait_for_each_other(server: ServerProcess) -> None:
    async def check() -> Sequence[str]:
        async with inspected(Target(server.url, "default", as_json=False), None) as look:
            return (await look.problems("message", None, ROWS_MAX, is_cleaned=False)).problems

    assert await asyncio.gather(*(check() for _ in range(8))) == [[]] * 8


def test_a_server_that_is_not_there() -> None:
    code, _, err = run_command("debug", "tables", "--url", "http://127.0.0.1:9")

    assert code == 6
    assert "127.0.0.1:9" in err
    assert run_command("debug", "tables", "--url", "127.0.0.1")[0] == 2


@pytest.fixture
async def rest(anyio_backend: str) -> AsyncIterator[Rest]:
    async with live() as opened_rest:
        yield opened_rest


async def ask(rest: Rest, what: str, **query: Any) -> Any:
    answer = await rest.http.get(f"{DEBUG}/{what}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.anyio
async def test_parts_make_the_whole(rest: Rest) -> None:
    await rest.create()
    await rest.publish(*(b"%d" % number for number in range(10)))
    whole = await ask(rest, "rows")
    found: list[Any] = []
    after: dict[str, str] = {}
    while True:
        part = await ask(rest, "rows", limit=3, **after)
        assert len(part["rows"]) <= 3
        found += part["rows"]
        if part["next"] is None:
            break
        after = {"after": part["next"]}

    assert whole["next"] is None
    assert found == whole["rows"]
    assert len(found) == 10


@pytest.mark.anyio
async def test_a_part_is_bounded_in_bytes(rest: Rest) -> None:
    await rest.create()
    for _ in range(6):
        await rest.publish(b"x" * 1_000_000)

    assert len((await ask(rest, "rows"))["rows"]) == 5
    assert (await ask(rest, "size"))["rows"] == 5


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("rows?table=x", "invalid_query"),
        ("rows?after=0", "invalid_query"),
        ("rows?after=zz", "invalid_query"),
        ("rows?from=now", "invalid_query"),
        ("rows?limit=0", "invalid_limit"),
        ("rows?topic=a.b", "invalid_topic_name"),
        ("rows?topic=a&namespace=-", "invalid_namespace_name"),
        ("size?table=cache", "invalid_query"),
        ("problems?table=bound", "invalid_query"),
        ("problems?cleaned=yes", "invalid_query"),
        ("namespaces/ns/topics/t/explain", "invalid_message_id"),
        ("namespaces/ns/topics/t/explain?id=12", "invalid_message_id"),
    ],
)
async def test_wrong_questions(rest: Rest, path: str, code: str) -> None:
    assert refusal(await rest.http.get(f"{DEBUG}/{path}")) == (400, code)


@pytest.mark.anyio
async def test_one_report_is_made_at_a_time(rest: Rest) -> None:
    await rest.create()
    await rest.publish(*[b"x"] * 5_000)
    explained = f"namespaces/ns/topics/t/explain?id={'0' * 40}"
    asked = ("rows", "size", "problems", explained, "problems?table=cache") * 4

    answers = await asyncio.gather(*(rest.http.get(f"{DEBUG}/{each}") for each in asked))

    assert answers[0].status_code == 200
    refused = [answer for answer in answers if answer.status_code != 200]
    assert len(refused) > len(asked) // 2
    for answer in refused:
        assert refusal(answer) == (503, "debug_busy")
        assert answer.headers["retry-after"] == "1"
    for each in asked:  # one after another
        assert (await rest.http.get(f"{DEBUG}/{each}")).status_code == 200


@pytest.mark.anyio
async def test_a_limit_is_capped(rest: Rest) -> None:
    assert (await ask(rest, "rows", limit=ROWS_MAX * 10))["rows"] == []


@pytest.mark.anyio
async def test_a_cache_that_differs_from_its_table_is_found(rest: Rest) -> None:
    await rest.create()
    await rest.publish(b"a", b"b")
    await rest.publish(b"c", pointer=POINTER)
    assert (await ask(rest, "problems", table="cache")) == {
        "problems": [],
        "rows": 1,
        "sealed": 0,
        "without_payloads": 0,
        "next": None,
    }
    assert isinstance(rest.services.inspection, Partwise)
    store = rest.services.inspection._store
    start = prefix(TopicId("ns", "t"), 1)
    with store.scan(MESSAGE, start, start + b"\xff", reverse=True, limit=1) as rows:
        [(last, _)] = rows
    batch = store.batch()
    batch.put(MESSAGE, start + KEY.pack(NOW_MS, 0), b"\0changed")
    batch.put(MESSAGE, last, transactional_start(-POINTER) + b"c")
    await asyncio.to_thread(store.write, batch)

    [problem] = (await ask(rest, "problems", table="cache"))["problems"]
    assert problem.startswith("cache ns:t: 2 differ from the table: ")
    assert last[-KEY.size :].hex() in problem


@pytest.mark.anyio
async def test_a_cache_is_as_its_table_after_rollback_expiry_and_cleanup(rest: Rest) -> None:
    await rest.create(ttl=60)
    await rest.publish(*[b"old"] * 10)
    rest.clock.advance(50_000)
    published = await rest.publish(b"new", pointer=POINTER)
    await rest.post("rollback", published.content)
    rest.clock.advance(20_000)
    assert (await rest.http.post("/v1/cleanup?wait=30")).json()["dropped_rows"] == 10

    assert (await ask(rest, "problems", table="cache"))["problems"] == []
    assert len(await rest.messages()) == 1
    assert (await rest.http.get(f"{TOPIC}")).status_code == 200
