"""Requests on transactions, for the tests of them."""

from typing import Any

import httpx

from tests.api.rest import Rest
from tms.wire import json_reports

TRANSACTIONS = "/v1/transactions"
HOME = "?namespace=ns"


async def ask(
    own: Rest, path: str = "", body: bytes | dict[str, Any] | None = None, content_type: str = ""
) -> httpx.Response:
    """Post JSON, or bytes of a type; without a body, no Content-Type either."""
    url = f"{TRANSACTIONS}{path or HOME}"
    if isinstance(body, dict):
        return await own.http.post(url, json=body)
    headers = {"content-type": content_type} if content_type else {}
    return await own.http.post(url, content=body or b"", headers=headers)


async def started(own: Rest, **asked: Any) -> int:
    answer = await ask(own, "", asked)
    assert answer.status_code == 200, answer.text
    return int(answer.json()["transaction_id"])


async def shown(own: Rest, transaction_id: int) -> dict[str, Any]:
    answer = await own.http.get(f"{TRANSACTIONS}/{transaction_id}")
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def invalid_size(own: Rest) -> int:
    return json_reports.decode_size((await own.http.get(f"{TRANSACTIONS}/invalid/size")).content)
