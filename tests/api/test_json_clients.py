"""Programs that keep JSON numbers in 53 bits, Node and jq, touch no transaction but their own.

All transactions are of one millisecond: as doubles, their ids are two different numbers at most.
"""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.rest import JSON_TYPE, POINTER, TOPIC, Rest
from tests.api.transactions import TRANSACTIONS
from tests.scale import scaled
from tests.waiting import in_time
from tms.core.services.transactions import TransactionStatus

pytestmark = pytest.mark.anyio

CLIENT = Path(__file__).parent / "json_client.mjs"
COUNT = scaled(400)


async def run(*command: str, given: bytes = b"") -> bytes:
    """Return the standard output of a program, which must succeed."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is missing: scripts/test installs it")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    async with in_time():
        out, err = await process.communicate(given)
    assert process.returncode == 0, err.decode()
    return out


async def jq(program: str, *answers: httpx.Response) -> list[bytes]:
    """Return the lines that jq prints for answers."""
    given = b"\n".join(answer.content for answer in answers)
    return (await run("jq", "-rc", program, given=given)).splitlines()


async def post(own: Rest, path: str, body: bytes | dict[str, Any] = b"{}") -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = await own.http.post(path, content=content, headers={"content-type": JSON_TYPE})
    assert answer.status_code == 200, answer.text
    return answer


async def status(own: Rest, transaction_id: int | str) -> TransactionStatus:
    return (await own.services.transactions.info(int(transaction_id))).status


async def committed_payloads(own: Rest) -> set[str]:
    answer = await own.post("poll", {"limit": 2 * COUNT}, query="?isolation=committed")
    return {message["payload"] for message in answer.json()}


async def test_node_ends_its_own_transactions_alone(own: Rest) -> None:
    await own.create()
    url = str(own.http.base_url).rstrip("/")

    ended = json.loads(await run("node", str(CLIENT), url, str(COUNT)))

    ids = [int(text) for some in ended.values() for text in some]
    assert len(set(ids)) == COUNT
    assert all(POINTER <= pointer < POINTER + 1_000_000 for pointer in ids)
    assert len({float(pointer) for pointer in ids}) < COUNT, "as doubles they are not told apart"
    expected = {
        "committed": TransactionStatus.COMMITTED,
        "aborted": TransactionStatus.ABORTED,
        "stored": TransactionStatus.COMMITTED,
        "truncated": None,
        "invalid": TransactionStatus.INVALID,
        "open": TransactionStatus.IN_PROGRESS,
    }
    for way, transaction_ids in ended.items():
        if expected[way] is not None:
            found = {await status(own, transaction_id) for transaction_id in transaction_ids}
            assert found == {expected[way]}, way
    invalid = await own.services.transactions.invalid()
    assert [info.transaction_id for info in invalid] == [*map(int, ended["invalid"])]
    in_progress = await own.services.transactions.in_progress()
    assert [info.transaction_id for info in in_progress] == [*map(int, ended["open"])]
    visible = [list(ended).index(way) for way in ("committed", "stored", "truncated")]
    numbers = {str(number) for number in range(COUNT) if number % len(ended) in visible}
    assert await committed_payloads(own) == numbers


async def test_jq_passes_on_the_ids_that_it_was_given(own: Rest) -> None:
    await own.create()
    started = [await post(own, f"{TRANSACTIONS}?codec=false") for _ in range(COUNT)]
    given = [str(info.transaction_id) for info in await own.services.transactions.in_progress()]
    bodies = await jq('{transactionWritePointer: .write_pointer, messages: ["x"]}', *started)
    published = [await post(own, f"{TOPIC}/publish", body) for body in bodies]
    ranges = await jq(".", *published)

    listed = await own.http.get(TRANSACTIONS)
    ids = [line.decode() for line in await jq(".[].transaction_id", listed)]
    assert ids == given
    for transaction_id, undo in list(zip(ids, ranges, strict=True))[::2]:
        await post(own, f"{TOPIC}/rollback", undo)
        assert (await post(own, f"{TRANSACTIONS}/{transaction_id}/abort")).json() == {
            "status": "aborted"
        }
    for transaction_id in ids[1::4]:
        await post(own, f"{TRANSACTIONS}/{transaction_id}/invalidate")
    invalid = await own.http.get(f"{TRANSACTIONS}?status=invalid")
    [truncation] = await jq("{ids: [.[].transaction_id][:10]}", invalid)
    assert (await post(own, f"{TRANSACTIONS}/invalid/truncate", truncation)).json() == {
        "truncated": 10
    }

    assert {await status(own, each) for each in ids[::2]} == {TransactionStatus.ABORTED}
    assert {await status(own, each) for each in ids[3::4]} == {TransactionStatus.IN_PROGRESS}
    left = await own.services.transactions.invalid()
    assert [str(info.transaction_id) for info in left] == ids[1::4][10:]


async def test_a_commit_publishes_by_the_pointers_that_jq_read(own: Rest) -> None:
    await own.create()
    transaction_id = (await post(own, f"{TRANSACTIONS}?codec=false")).json()["transaction_id"]
    path = f"{TRANSACTIONS}/{transaction_id}/checkpoint?codec=false"
    attempts = [await post(own, path) for _ in range(20)]
    bodies = await jq(
        "{transactionWritePointer: .write_pointer, messages: [.write_pointer]}", *attempts
    )
    for body in bodies:
        await post(own, f"{TOPIC}/store", body)
    counted = attempts[::2]
    listed = await jq('{namespace: "ns", topic: "t", write_pointer: .write_pointer}', *counted)
    commit = b'{"publish": [%s]}' % b",".join(listed)

    await post(own, f"{TRANSACTIONS}/{transaction_id}/commit", commit)

    wanted = {attempt.json()["write_pointer"] for attempt in counted}
    assert await committed_payloads(own) == wanted
