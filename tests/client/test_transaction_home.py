"""A start names the transaction's home to a server; one that knows no shards gets no home."""

import pytest

from tms.client.remote.calls import Calls
from tms.client.remote.http import Http
from tms.client.remote.remote_transactions import RemoteTransactions
from tms.core.errors import InvalidRequest
from tms.core.services.transactions import StartRequest
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.transaction import Transaction
from tms.wire.json_transactions import encode_started

pytestmark = pytest.mark.anyio

STARTED = encode_started(Transaction(4, 5, 5), with_codec=True)


class Asked(Calls):
    """A server that answers each start, or refuses its parameters."""

    def __init__(self, refusal: InvalidRequest | None = None) -> None:
        super().__init__(Http("http://127.0.0.1:1", timeout_s=1, compress=False), retry_for_s=0)
        self.paths: list[str] = []
        self._refusal = refusal

    async def safely(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str | None = None,
        caller: Caller = ANYBODY,
    ) -> bytes:
        self.paths.append(path)
        if "?" in path and self._refusal is not None:
            raise self._refusal
        return STARTED


async def test_the_home_is_in_the_query() -> None:
    asked = Asked()
    for request in (
        StartRequest(),
        StartRequest(namespace="shop"),
        StartRequest(namespace="shop", topic="orders"),
        StartRequest(topic="orders"),
    ):
        assert (await RemoteTransactions(asked).start(request)).transaction_id == 5

    assert [path.partition("?")[2] for path in asked.paths] == [
        "",
        "namespace=shop",
        "namespace=shop&topic=orders",
        "topic=orders",
    ]


async def test_a_server_that_knows_no_home_is_asked_without() -> None:
    asked = Asked(InvalidRequest("unknown_query_parameter", name="namespace"))

    started = await RemoteTransactions(asked).start(StartRequest(namespace="shop"))

    assert started.transaction_id == 5
    assert asked.paths == ["v1/transactions?namespace=shop", "v1/transactions"]


async def test_another_refusal_is_reported() -> None:
    asked = Asked(InvalidRequest("invalid_namespace_name"))

    with pytest.raises(InvalidRequest):
        await RemoteTransactions(asked).start(StartRequest(namespace="a-b"))
    assert len(asked.paths) == 1
