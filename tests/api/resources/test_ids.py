"""An id as a JSON number is refused by every operation, and changes nothing."""

import json
from typing import Any

import pytest

from tests.api.rest import JSON_TYPE, TOPIC, Rest, refusal
from tests.api.transactions import TRANSACTIONS, ask, started
from tms.core.limits import JSON_INTEGER_MAX

pytestmark = pytest.mark.anyio

AS_NUMBER = (400, "id_as_number")


def bodies(pointer: object) -> dict[str, dict[str, Any]]:
    """Return every request whose body has an id, by the path."""
    written = {"transactionWritePointer": pointer}
    times = {"startTimestamp": 1, "startSequenceId": 0, "endTimestamp": 2, "endSequenceId": 0}
    stored = {"namespace": "ns", "topic": "t", "write_pointer": pointer}
    return {
        f"{TOPIC}/publish": {**written, "messages": ["x"]},
        f"{TOPIC}/store": {**written, "messages": ["x"]},
        f"{TOPIC}/rollback": {**written, "rollbackRange": times},
        f"{TRANSACTIONS}/{{id}}/commit": {"publish": [stored]},
        f"{TRANSACTIONS}/invalid/truncate": {"ids": [pointer]},
    }


@pytest.mark.parametrize("form", [int, float, lambda number: {"long": number}])
async def test_a_number_is_400_and_changes_nothing(own: Rest, form: Any) -> None:
    await own.create()
    transaction_id, invalid = await started(own), await started(own)
    await ask(own, f"/{invalid}/invalidate")

    for path, body in bodies(form(transaction_id)).items():
        answer = await own.http.post(path.format(id=transaction_id), json=body)
        is_tagged = isinstance(form(1), dict) and path.startswith(TRANSACTIONS)
        assert refusal(answer) == ((400, "invalid_body") if is_tagged else AS_NUMBER), path
    polled = await own.post("poll", {"transaction": transaction_id})

    assert refusal(polled) == AS_NUMBER
    listed = (await own.http.get(TRANSACTIONS)).json()
    assert [(each["transaction_id"], each["topics"]) for each in listed] == [
        (str(transaction_id), [])
    ]
    assert await own.services.transactions.invalid_count() == 1
    assert await own.payloads() == []


@pytest.mark.parametrize("text", ["", "0", "-1", "12x", "0012", str(2**63), "1" + "0" * 30])
async def test_text_that_is_not_an_id_is_400(own: Rest, text: str) -> None:
    await own.create()
    transaction_id = await started(own)

    for path, body in bodies(text).items():
        answer = await own.http.post(path.format(id=transaction_id), json=body)
        is_list = path.endswith("truncate")
        code = "invalid_transaction_id" if is_list else "invalid_write_pointer"
        assert refusal(answer) == (400, code), path


async def test_errors_report_ids_as_text_and_no_number_that_might_be_rounded(own: Rest) -> None:
    transaction_id = await started(own, owner="o", sequence=1)
    busy = await ask(own, "", {"owner": "o", "sequence": 2})
    unknown = await own.http.get(f"{TRANSACTIONS}/7")
    long = await ask(own, "", {"timeout_s": 2**62})

    assert busy.json()["error"]["detail"]["transaction_id"] == str(transaction_id)
    assert unknown.json()["error"]["detail"] == {"transaction_id": "7"}
    assert long.json()["error"]["detail"]["timeout_s"] == str(2**62)


@pytest.mark.parametrize(
    ("sequence", "is_taken"), [(JSON_INTEGER_MAX, True), (JSON_INTEGER_MAX + 1, False)]
)
async def test_a_sequence_is_a_number_that_json_keeps(
    own: Rest, sequence: int, *, is_taken: bool
) -> None:
    await own.create()
    asked = {"owner": "o", "sequence": sequence}
    once = {**asked, "topics": {"t": ["x"]}, "owner": "p"}

    for path, body in ((TRANSACTIONS, asked), ("/v1/namespaces/ns/publish", once)):
        answer = await own.http.post(
            path, content=json.dumps(body), headers={"content-type": JSON_TYPE}
        )
        if is_taken:
            assert answer.status_code == 200, answer.text
        else:
            assert refusal(answer) == (400, "invalid_owner")
