"""The state of transactions over REST, and the truncation of the invalid list."""

from typing import Any

import pytest

from tests.api.rest import NOW_MS, Rest, refusal
from tests.api.transactions import TRANSACTIONS, ask, invalid_size, started
from tms.core.services.transactions import TransactionStatus
from tms.core.values.transaction import Transaction
from tms.wire import json_reports
from tms.wire.transaction_codec import decode_transaction

pytestmark = pytest.mark.anyio


async def test_transactions_are_listed_oldest_first(own: Rest) -> None:
    ids = [await started(own, client=str(number)) for number in range(3)]
    own.clock.advance(1_000)
    later = await started(own)
    await ask(own, f"/{ids[2]}/invalidate")

    listed = await own.http.get(TRANSACTIONS)
    infos = json_reports.decode_infos(listed.content)
    assert [info.transaction_id for info in infos] == [*ids[:2], later]
    assert [told["age_ms"] for told in listed.json()] == [1_000, 1_000, 0]
    assert [info.client for info in infos[:2]] == ["0", "1"]
    limited = await own.http.get(f"{TRANSACTIONS}?limit=1&status=in_progress")
    assert [told["transaction_id"] for told in limited.json()] == [str(ids[0])]
    invalid = await own.http.get(f"{TRANSACTIONS}?status=invalid&limit=5")
    assert [told["transaction_id"] for told in invalid.json()] == [str(ids[2])]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("status=committed", "invalid_query"),
        ("status=", "invalid_query"),
        ("limit=0", "invalid_limit"),
        ("limit=-1", "invalid_limit"),
        ("limit=x", "invalid_limit"),
        ("limit=1&limit=2", "invalid_limit"),
        (f"limit={2**63}", "invalid_limit"),
        ("state=invalid", "unknown_query_parameter"),
    ],
)
async def test_a_wrong_list_is_refused(own: Rest, query: str, code: str) -> None:
    assert refusal(await own.http.get(f"{TRANSACTIONS}?{query}")) == (400, code)


async def test_one_transaction_is_shown_with_its_codec(own: Rest) -> None:
    transaction_id = await started(own)

    answer = await own.http.get(f"{TRANSACTIONS}/{transaction_id}")

    info, codec = json_reports.decode_info(answer.content)
    assert codec is not None
    assert isinstance(decode_transaction(codec), Transaction)
    assert info.status is TransactionStatus.IN_PROGRESS
    without = await own.http.get(f"{TRANSACTIONS}/{transaction_id}?codec=false")
    assert json_reports.decode_info(without.content) == (info, None)
    wrong = await own.http.get(f"{TRANSACTIONS}/{transaction_id}?codec=")
    assert refusal(wrong) == (400, "invalid_query")
    assert refusal(await own.http.get(f"{TRANSACTIONS}/1")) == (404, "transaction_unknown")


async def test_the_invalid_list_is_truncated(own: Rest) -> None:
    ids = [await started(own) for _ in range(4)]
    for transaction_id in ids:
        await ask(own, f"/{transaction_id}/invalidate")
    by_ids = await ask(own, "/invalid/truncate", {"ids": [str(ids[0])] * 2})
    assert by_ids.json() == {"truncated": 1}
    of_another = await ask(own, "/invalid/truncate", {"ids": [str(ids[1]), "1"]})
    assert of_another.json() == {"truncated": 1}
    assert await invalid_size(own) == 2
    by_time = await ask(own, "/invalid/truncate", {"before_ms": NOW_MS + 1})
    assert by_time.json() == {"truncated": 2}
    assert await invalid_size(own) == 0


async def test_a_truncation_does_not_pass_what_is_in_progress(own: Rest) -> None:
    await started(own)

    answer = await ask(own, "/invalid/truncate", {"before_ms": NOW_MS + 1})

    assert refusal(answer) == (409, "invalid_truncate_time")


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({}, "invalid_body"),
        ({"ids": ["1"], "before_ms": 1}, "invalid_body"),
        ({"ids": "1"}, "invalid_body"),
        ({"ids": ["0"]}, "invalid_transaction_id"),
        ({"before_ms": -1}, "invalid_time"),
        ({"before_ms": 2**63}, "invalid_body"),
    ],
)
async def test_a_wrong_truncation_is_refused(own: Rest, asked: dict[str, Any], code: str) -> None:
    assert refusal(await ask(own, "/invalid/truncate", asked)) == (400, code)


async def test_the_state_is_bytes(own: Rest) -> None:
    await started(own)

    answer = await own.http.get(f"{TRANSACTIONS}/state?shard=0")

    assert answer.headers["content-type"] == "application/octet-stream"
    # Tephra's codec: the version, 4, as a zig-zag number.
    assert answer.content[:1] == b"\x08"
