"""A call is made, and its answer accepted, only while the lease is held."""

from typing import Any

import pytest

from tables.hbase.connections import CallFailed, Gateway
from tms.core.errors import NoLeader


class Connection:
    """One that is there."""

    client = "the gateway's"

    def open(self) -> None:
        """Be open."""

    def close(self) -> None:
        """Be closed."""


class Held:
    """A lease, and a gateway that checks it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_over = False
        self.gateway = Gateway("nowhere", 1, guard=self.check, retry_s=0.0)
        monkeypatch.setattr(self.gateway, "_connect", Connection)

    def check(self) -> None:
        if self.is_over:
            raise NoLeader(token=1)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    return Held(monkeypatch)


def test_what_is_answered_in_time_is_done(held: Held) -> None:
    assert held.gateway.once(lambda client: client) == "the gateway's"


def test_an_answer_after_the_lease_is_none(held: Held) -> None:
    """The next leader may have started before the call was carried out, and hide its effect."""

    def call(_: Any) -> str:
        held.is_over = True
        return "done"

    with pytest.raises(CallFailed) as failed:
        held.gateway.once(call)
    assert failed.value.is_in_doubt


def test_nothing_is_sent_after_the_lease(held: Held) -> None:
    sent: list[Any] = []
    held.is_over = True

    with pytest.raises(CallFailed) as failed:
        held.gateway.once(sent.append)
    assert (sent, failed.value.is_in_doubt) == ([], False)
