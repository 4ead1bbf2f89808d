"""A forwarding server answers with our own errors, whatever its connection to the leader raises."""

import ssl
from typing import Any

import anyio
import httpx
import pytest

from tests.api.cluster.standing_by import Second
from tests.api.rest import TOPICS, refusal

pytestmark = pytest.mark.anyio

FAULTS = [
    AttributeError("'NoneType' object has no attribute 'getpeername'"),
    RuntimeError(
        "unable to perform operation on <TCPTransport closed=True>; the handler is closed"
    ),
    anyio.ClosedResourceError(),
    OSError(9, "Bad file descriptor"),
    ssl.SSLError(1, "APPLICATION_DATA_AFTER_CLOSE_NOTIFY"),
]


def breaks(second: Second, monkeypatch: pytest.MonkeyPatch, place: str, fault: Exception) -> None:
    """Make the forwarder's requests raise while they are sent, read or closed."""
    way: Any = second.forwarder._ways.present
    client: Any = way.client
    sends = client.send

    async def send(*arguments: Any, **named: Any) -> httpx.Response:
        if place == "send":
            raise fault
        answer: httpx.Response = await sends(*arguments, **named)
        monkeypatch.setattr(answer, place, raises)
        return answer

    def raises() -> Any:
        raise fault

    monkeypatch.setattr(client, "send", send)


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
async def test_each_fault_is_an_error_of_ours_and_the_next_request_is_answered(
    second: Second, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    with monkeypatch.context() as broken:
        breaks(second, broken, "send", fault)
        assert refusal(await second.http.get(TOPICS)) == (504, "outcome_unknown")
    with monkeypatch.context() as broken:
        breaks(second, broken, "aclose", fault)
        assert (await second.http.get(TOPICS)).status_code == 200
    with monkeypatch.context() as broken:
        breaks(second, broken, "aiter_raw", fault)
        with pytest.raises(httpx.TransportError):  # the head was sent: only a cut shows it
            await second.http.get(TOPICS)
    assert (await second.http.get(TOPICS)).status_code == 200
