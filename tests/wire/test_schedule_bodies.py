"""Schedules within commits and publishes to several topics survive a round trip through JSON."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.core.framed_messages import CONTENTS
from tms.core.limits import INT64_MAX
from tms.core.services.commits import CommitRequest
from tms.core.values.frame import bodies_of
from tms.core.values.message import Message
from tms.core.values.schedules import CommitSchedule, DeliveryTime
from tms.core.values.topic import TopicId
from tms.wire import json_transactions
from tms.wire.bodies import PublishAllRequest, last_of
from tms.wire.json_bodies import JSON

SCHEDULES = st.builds(
    CommitSchedule,
    st.builds(TopicId, st.just("default"), st.from_regex(r"[A-Za-z0-9_]{1,9}", fullmatch=True)),
    st.lists(CONTENTS.map(Message.body), max_size=3).map(bodies_of),
    st.builds(DeliveryTime, st.integers(0, INT64_MAX), st.none())
    | st.builds(DeliveryTime, st.none(), st.floats(0, 1e9)),
)


@given(st.lists(SCHEDULES, min_size=1, max_size=3))
def test_what_a_commit_schedules_survives(schedule: Sequence[CommitSchedule]) -> None:
    carried = CommitRequest(schedule=tuple(schedule))
    request = PublishAllRequest({"orders": [b"a"]}, carried=carried)

    commit = json_transactions.decode_commit(json_transactions.encode_commit(carried))
    assert last_of(JSON.publish_all_steps(JSON.encode_publish_all(request), 1_000)) == request
    assert commit == carried
    for found, given_one in zip(commit.schedule, schedule, strict=True):
        assert [*map(type, found.payloads)] == [*map(type, given_one.payloads)]
