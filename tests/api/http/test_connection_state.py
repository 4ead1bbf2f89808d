"""The table of a connection's states."""

import pytest

from api.http.protocol.connection_state import AT_WORK, ENDING, FOLLOWERS, ConnectionState
from tests.api.http.odd_requests import PING
from tests.api.http.wires import Wires
from tests.api.rest import Live

pytestmark = pytest.mark.anyio


def test_the_table_has_each_state_and_each_can_come_to_its_end() -> None:
    assert set(FOLLOWERS) == set(ConnectionState)
    assert {*AT_WORK, *ENDING, ConnectionState.IDLE} == set(ConnectionState)
    for state in set(ConnectionState) - {ConnectionState.LOST}:
        assert ConnectionState.LOST in FOLLOWERS[state]
        assert state.followers == FOLLOWERS[state]
        assert state not in state.followers


def test_nothing_is_answered_behind_the_last_answer() -> None:
    for state in ENDING:
        assert set(FOLLOWERS[state]) <= set(ENDING)


async def test_a_change_that_the_table_has_not_is_an_error_of_ours(served: Live) -> None:
    wires = Wires(served.app)
    connection, _ = wires.connect()
    connection.data_received(PING)
    assert not connection.is_idle
    await wires.settle(connection)
    connection.connection_lost(None)

    with pytest.raises(AssertionError, match="LOST"):
        connection._become(ConnectionState.WORKING)
