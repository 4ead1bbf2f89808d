"""The places of shards while leaders change."""

from typing import Any, cast

import pytest

from tms.core.errors import NoLeader
from tms.sharding.places import Picked, Places


class Somewhere:
    """The services of a shard, reduced to what code needs that chooses among shards."""

    def __init__(self, name: str) -> None:
        self.messaging = self.transactions = name


def picked(places: "Places[Any]") -> tuple[Any, Any]:
    """Return the services used for shard 1: for callers, and for the server itself."""
    asked = Picked(places.as_caller, lambda each: each.messaging)
    return asked[1], Picked(places.as_server, lambda each: each.messaging)[1]


def test_a_leader_that_was_heard_of_before_the_own_one_left_is_asked_then() -> None:
    places = Places[Any](2)
    as_caller, as_server = cast("Any", Somewhere("caller")), cast("Any", Somewhere("server"))
    places.lead(1, Somewhere("here"))
    places.set_remote(1, as_caller, as_server)
    assert picked(places) == ("here", "here")
    places.leave(1)
    assert picked(places) == ("caller", "server")
    places.set_remote(1, None, None)
    with pytest.raises(NoLeader) as away:
        picked(places)
    assert away.value.detail == {"shard": 1}
