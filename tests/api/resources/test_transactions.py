"""Transactions: the answer to each request, and the code of each refusal."""

import base64
from typing import Any

import pytest

from tests.api.rest import (
    JSON_TYPE,
    NOW_MS,
    POINTER,
    TOPIC,
    Rest,
    avro_publish,
    live,
    refusal,
)
from tests.api.transactions import TRANSACTIONS, ask, invalid_size, shown, started
from tests.waiting import until
from tms.core.limits import Limits
from tms.core.services.transactions import StartRequest, TransactionStatus
from tms.core.values.transaction import TransactionType
from tms.wire.json_transactions import (
    decode_ended,
    decode_started,
    encode_start,
)
from tms.wire.transaction_codec import decode_transaction

pytestmark = pytest.mark.anyio

CONFLICT = (409, "transaction_conflict")
ENDED = (409, "transaction_not_in_progress")
UNKNOWN = (404, "transaction_unknown")


@pytest.mark.parametrize(
    ("body", "content_type"), [(None, ""), (b"", JSON_TYPE), ({}, ""), (b"{}", JSON_TYPE)]
)
async def test_a_start_without_wishes(own: Rest, body: Any, content_type: str) -> None:
    answer = await ask(own, "", body, content_type)

    assert answer.status_code == 200
    assert answer.headers["content-type"] == JSON_TYPE
    told = answer.json()
    transaction = decode_transaction(base64.b64decode(told["transaction"]))
    assert decode_started(answer.content) == transaction
    ids = [int(told[name]) for name in ("transaction_id", "write_pointer", "read_pointer")]
    assert ids == [transaction.transaction_id] * 2 + [transaction.read_pointer]
    assert transaction.read_pointer < transaction.transaction_id
    assert transaction.type is TransactionType.SHORT
    info = await shown(own, transaction.transaction_id)
    assert info["expires_ms"] == NOW_MS + 30_000


async def test_a_start_with_all_wishes(own: Rest) -> None:
    wishes = StartRequest(timeout_s=60, client="me", owner="o", sequence=7)
    answer = await ask(own, "", encode_start(wishes), JSON_TYPE)
    first = decode_started(answer.content).transaction_id
    second = await started(own, type="long", client="you")

    info = await shown(own, first)
    assert (info["expires_ms"], info["client"]) == (NOW_MS + 60_000, "me")
    assert (info["owner"], info["sequence"], info["type"]) == ("o", 7, "short")
    info = await shown(own, second)
    assert (info["type"], info["client"], info["owner"]) == ("long", "you", None)


@pytest.mark.parametrize("verb", ["", "/checkpoint"])
async def test_the_codec_is_left_out_if_it_is_not_asked_for(own: Rest, verb: str) -> None:
    path = f"/{await started(own)}{verb}" if verb else ""

    assert "transaction" in (await ask(own, path)).json()
    assert "transaction" in (await ask(own, f"{path}?codec=true")).json()
    assert "transaction" not in (await ask(own, f"{path}?codec=false")).json()
    assert refusal(await ask(own, f"{path}?codec=no")) == (400, "invalid_query")


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"timeout_s": 0}, "invalid_timeout"),
        ({"timeout_s": 86_401}, "invalid_timeout"),
        ({"timeout_s": -(2**63)}, "invalid_timeout"),
        ({"timeout_s": 2**63}, "invalid_body"),
        ({"owner": ""}, "invalid_owner"),
        ({"owner": "o" * 256}, "invalid_owner"),
        ({"sequence": 1}, "invalid_owner"),
        ({"owner": "o", "sequence": -1}, "invalid_owner"),
        ({"type": "SHORT"}, "invalid_body"),
        ({"if_open": "wait"}, "invalid_body"),
        ({"timeout": 5}, "invalid_body"),
    ],
)
async def test_a_wrong_start_is_refused(own: Rest, asked: dict[str, Any], code: str) -> None:
    assert refusal(await ask(own, "", asked)) == (400, code)
    assert (await own.http.get(TRANSACTIONS)).json() == []


async def test_a_transaction_commits(own: Rest) -> None:
    transaction_id = await started(own)

    assert (await ask(own, f"/{transaction_id}/can-commit", {"changes": ["a"]})).content == b""
    assert (await shown(own, transaction_id))["status"] == "committing"
    committed = await ask(own, f"/{transaction_id}/commit")

    assert (committed.status_code, committed.content) == (200, b"")
    info = await shown(own, transaction_id)
    assert (info["status"], info["expires_ms"]) == ("committed", None)
    assert "transaction" not in info
    again = await ask(own, f"/{transaction_id}/commit")
    assert refusal(again) == ENDED
    assert again.json()["error"]["detail"]["status"] == "committed"


async def test_the_second_that_changed_the_same_conflicts(own: Rest) -> None:
    first, second = await started(own), await started(own)
    changes = {"changes": [{"base64": "/w=="}]}

    assert (await ask(own, f"/{first}/can-commit", changes)).status_code == 200
    assert (await ask(own, f"/{second}/can-commit", {"changes": ["other"]})).status_code == 200
    assert (await ask(own, f"/{first}/commit")).status_code == 200

    assert refusal(await ask(own, f"/{second}/can-commit", changes)) == CONFLICT
    aborted = await ask(own, f"/{second}/abort")
    assert aborted.json() == {"status": "aborted"}


async def test_a_conflict_is_found_at_the_commit_too(own: Rest) -> None:
    first, second = await started(own), await started(own)
    for transaction_id in (first, second):
        asked = await ask(own, f"/{transaction_id}/can-commit", {"changes": ["a"]})
        assert asked.status_code == 200

    assert (await ask(own, f"/{second}/commit")).status_code == 200
    assert refusal(await ask(own, f"/{first}/commit")) == CONFLICT
    assert (await shown(own, first))["status"] == "committing"


async def test_an_abort_says_what_the_transaction_is_now(own: Rest) -> None:
    await own.create()
    clean, dirty, long = await started(own), await started(own), await started(own, type="long")
    await own.publish(b"left", pointer=dirty)

    assert (await ask(own, f"/{clean}/abort")).json() == {"status": "aborted"}
    assert (await ask(own, f"/{dirty}/abort", {})).json() == {"status": "aborted"}
    of_long = await ask(own, f"/{long}/abort", b"", JSON_TYPE)
    assert decode_ended(of_long.content) is TransactionStatus.INVALID
    assert of_long.headers["content-type"] == JSON_TYPE


async def test_a_rolled_back_transaction_is_aborted(own: Rest) -> None:
    await own.create()
    transaction_id = await started(own)
    published = await own.publish(b"a", b"b", pointer=transaction_id)
    assert (await shown(own, transaction_id))["topics"] == ["ns:t"]

    assert (await own.post("rollback", published.content)).status_code == 200

    assert (await ask(own, f"/{transaction_id}/abort")).json() == {"status": "aborted"}


async def test_a_transaction_is_invalidated(own: Rest) -> None:
    transaction_id = await started(own)

    answer = await ask(own, f"/{transaction_id}/invalidate")

    assert (answer.status_code, answer.content) == (200, b"")
    assert (await shown(own, transaction_id))["status"] == "invalid"
    assert await invalid_size(own) == 1


async def test_a_checkpoint_gives_another_write_pointer(own: Rest) -> None:
    transaction_id = await started(own)

    answer = await ask(own, f"/{transaction_id}/checkpoint", b"", JSON_TYPE)

    told, transaction = answer.json(), decode_started(answer.content)
    assert int(told["transaction_id"]) == transaction_id < int(told["write_pointer"])
    assert transaction.checkpoint_write_pointers == (int(told["write_pointer"]),)
    info = await shown(own, transaction_id)
    assert info["write_pointers"] == [str(transaction_id), told["write_pointer"]]


async def test_too_many_checkpoints_are_refused() -> None:
    async with live(Limits(transaction_checkpoints_max=1), own=True) as own:
        transaction_id = await started(own)
        await ask(own, f"/{transaction_id}/checkpoint")

        answer = await ask(own, f"/{transaction_id}/checkpoint")

        assert refusal(answer) == (413, "too_many_checkpoints")


async def test_too_many_changes_are_refused() -> None:
    async with live(Limits(transaction_changes_max=2), own=True) as own:
        transaction_id = await started(own)

        answer = await ask(own, f"/{transaction_id}/can-commit", {"changes": ["a"] * 3})

        assert refusal(answer) == (413, "too_many_changes")


async def test_too_many_transactions_are_refused() -> None:
    async with live(Limits(transactions_in_progress_max=1), own=True) as own:
        await started(own)

        answer = await ask(own)

        assert refusal(answer) == (503, "too_many_transactions")
        assert answer.headers["retry-after"] == "1"


VERBS = ["can-commit", "commit", "abort", "invalidate", "checkpoint"]


@pytest.mark.parametrize("verb", VERBS)
async def test_a_transaction_that_never_was_is_unknown(own: Rest, verb: str) -> None:
    body = {"changes": ["a"]} if verb == "can-commit" else None
    for transaction_id in (1, POINTER - 1, 2**63 - 1):
        assert refusal(await ask(own, f"/{transaction_id}/{verb}", body)) == UNKNOWN


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("wrong", ["0", "-1", "x", "1.0", "+1", " 1", "1e3", "٣", str(2**63)])
async def test_an_id_that_is_none_is_refused(own: Rest, verb: str, wrong: str) -> None:
    body: dict[str, Any] | None = {"changes": []} if verb == "can-commit" else None
    answer = await ask(own, f"/{wrong}/{verb}", body)

    assert refusal(answer) == (400, "invalid_transaction_id")
    shown_one = await own.http.get(f"{TRANSACTIONS}/{wrong}")
    assert refusal(shown_one) == (400, "invalid_transaction_id")


@pytest.mark.parametrize(
    "path", ["//commit", "/1/", "/1/commit/", "/1/rollback", "s", "s/1/commit"]
)
async def test_other_paths_are_none(own: Rest, path: str) -> None:
    assert refusal(await ask(own, path))[0] in (404, 405)


async def test_a_body_of_another_format_is_refused(own: Rest) -> None:
    transaction_id = await started(own)
    for verb in ("can-commit", "commit", "abort", "checkpoint"):
        answer = await ask(own, f"/{transaction_id}/{verb}", b"a=b", "text/plain")
        assert refusal(answer) == (415, "unsupported_content_type"), verb
    assert refusal(await ask(own, "", b"{}")) == (415, "unsupported_content_type")


async def test_a_body_beyond_what_any_needs_is_refused(own: Rest) -> None:
    answer = await ask(own, "", {"client": "x" * 1024 * 1024})

    assert refusal(answer) == (413, "request_too_large")


async def test_a_sequence_is_committed_once(own: Rest) -> None:
    first = await started(own, owner="o", sequence=1)
    await ask(own, f"/{first}/commit")

    again = await ask(own, "", {"owner": "o", "sequence": 1})

    assert refusal(again) == (409, "transaction_duplicate")
    assert again.json()["error"]["detail"]["transaction_id"] == str(first)


async def test_an_open_transaction_of_the_owner(own: Rest) -> None:
    first = await started(own, owner="o", sequence=1)

    assert refusal(await ask(own, "", {"owner": "o", "sequence": 2})) == (409, "owner_busy")
    assert await started(own, owner="o", sequence=1, if_open="join") == first
    second = await started(own, owner="o", sequence=1, if_open="fence")

    assert second != first
    assert (await shown(own, first))["status"] == "invalid"


async def test_a_write_pointer_that_was_not_given_out_is_refused(own: Rest) -> None:
    await own.create()
    ended = await started(own)
    await ask(own, f"/{ended}/commit")
    for verb in ("publish", "store"):
        refused = await own.post(verb, avro_publish(b"a", pointer=POINTER - 3))
        assert refusal(refused) == UNKNOWN
        assert refusal(await own.post(verb, avro_publish(b"a", pointer=ended))) == ENDED


async def test_a_committed_publish_is_not_rolled_back(own: Rest) -> None:
    await own.create()
    transaction_id = await started(own)
    published = await own.publish(b"a", pointer=transaction_id)
    await ask(own, f"/{transaction_id}/commit")

    assert refusal(await own.post("rollback", published.content)) == ENDED
    assert await own.payloads() == [b"a"]


async def test_a_transaction_that_times_out_is_invalid(own: Rest) -> None:
    transaction_id = await started(own, timeout_s=1)
    own.clock.advance(1_001)

    async def is_invalid() -> bool:
        return bool((await shown(own, transaction_id))["status"] == "invalid")

    await until(is_invalid)

    assert refusal(await ask(own, f"/{transaction_id}/commit")) == ENDED


async def test_where_transactions_are_managed_elsewhere_all_is_refused(rest: Rest) -> None:
    elsewhere = (409, "transactions_elsewhere")
    await rest.create()
    for verb in ("commit", "abort", "invalidate", "checkpoint"):
        assert refusal(await ask(rest, f"/{POINTER}/{verb}")) == elsewhere
    assert refusal(await ask(rest, f"/{POINTER}/can-commit", {"changes": []})) == elsewhere
    assert refusal(await ask(rest)) == elsewhere
    for path in ("", f"/{POINTER}", "/state", "/invalid/size"):
        assert refusal(await rest.http.get(f"{TRANSACTIONS}{path}")) == elsewhere
    assert refusal(await ask(rest, "/invalid/truncate", {"ids": []})) == elsewhere
    publish = await rest.http.post("/v1/namespaces/ns/publish", json={"topics": {"t": ["a"]}})
    assert refusal(publish) == elsewhere
    assert refusal(await rest.post("poll", {}, query="?isolation=committed")) == elsewhere
    assert await rest.payloads() == []
    assert (await rest.http.put(f"{TOPIC}/subscriptions/s")).status_code == 200


async def test_paths_that_are_escaped_find_their_endpoints_too(own: Rest) -> None:
    """Escaped paths go through the router instead of its shortcut."""
    transaction_id = await started(own)
    await own.create()
    escaped = "".join(f"%{ord(digit):x}" for digit in str(transaction_id))

    assert (await ask(own, f"/{escaped}/can-commit", {"changes": ["a"]})).status_code == 200
    assert (await ask(own, f"/{transaction_id}/%63ommit")).status_code == 200
    for _ in range(2):
        assert (await own.http.post("/v1/%74ransactions")).status_code == 200
        assert (await own.http.post("/v1/transactions")).status_code == 200
    publish = {"topics": {"t": ["a"]}}
    for path in ("/v1/namespaces/ns/publish", "/v1/namespaces/ns/%70ublish"):
        assert (await own.http.post(path, json=publish)).status_code == 200

    def answered(operation: str) -> float:
        return own.metric("tms_http_requests_total", operation=operation, status="200")

    assert answered("startTransaction") == 5
    assert answered("canCommitTransaction") == answered("commitTransaction") == 1
    assert answered("publishAll") == 2
