"""Bodies of groups, takes and settles, both ways: JSON, and Avro for the messages taken."""

import dataclasses
import io
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.framed_messages import CONTENTS
from tests.core.message_ids import IDS
from tms.core.errors import InternalError, InvalidRequest
from tms.core.limits import JSON_INTEGER_MAX
from tms.core.services.commits import CommitRequest
from tms.core.values.frame import bodies_of
from tms.core.values.group_settings import (
    DECLARED,
    DELAY_S_MAX,
    LEASE_S_MAX,
    SETTABLE,
    GroupSettings,
    Order,
)
from tms.core.values.groups import (
    REASON_BYTES_MAX,
    TAKE_MESSAGES_MAX,
    Acks,
    CommitAcks,
    Group,
    GroupMember,
    GroupState,
    LimitedBy,
    Nacks,
    OpenMessage,
    Position,
    Refusal,
    RefusedMessage,
    Releases,
    SeekTo,
    Settle,
    Settled,
    Take,
    Taken,
    kept_of,
)
from tms.core.values.message import Message, MessageBlock, MessageId
from tms.core.values.topic import TopicId
from tms.wire import json_groups, json_takes, json_transactions
from tms.wire.avro_taken import TAKEN_SCHEMA, decode_taken, encode_taken
from tms.wire.bodies import PublishAllRequest, last_of
from tms.wire.json_bodies import JSON

ORDERS = TopicId("default", "orders")
RAW_IDS = IDS.map(MessageId.encode)
NAMES = st.from_regex(r"[A-Za-z0-9_]{1,9}", fullmatch=True)
MEMBERS = st.from_regex(r"[A-Za-z0-9_.:-]{1,128}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
COUNTS = st.integers(0, JSON_INTEGER_MAX)
NUMBERS = st.integers(0, 2**63 - 1)
LEASES = st.integers(1, LEASE_S_MAX)
WAITS = st.integers(0, DELAY_S_MAX)
SETTINGS = st.builds(
    GroupSettings,
    st.sampled_from(Order),
    paused=st.booleans(),
    **{
        name: st.integers(int(each.ge), int(each.le or 0))
        for name, each in DECLARED.items()
        if each.ge is not None
    },
)
PLACES: st.SearchStrategy[Position] = st.sampled_from(SeekTo) | RAW_IDS | COUNTS
STATES = st.builds(
    GroupState,
    through=st.none() | RAW_IDS,
    oldest_open=st.none() | RAW_IDS,
    oldest_s=st.none() | st.floats(0, 10**9),
    limited_by=st.none() | st.sampled_from(LimitedBy),
    stopped_at=st.none() | NUMBERS,
    **{each.name: COUNTS for each in dataclasses.fields(GroupState) if each.type is int},
)
GROUPS = st.builds(Group, st.just(ORDERS), NAMES, COUNTS, st.none() | RAW_IDS, SETTINGS, STATES)
LISTS = st.lists(RAW_IDS, max_size=3)
SETTLES = st.builds(
    Settle,
    st.lists(st.builds(Acks, NUMBERS, st.none() | LISTS), max_size=3),
    st.lists(
        st.builds(
            Nacks,
            NUMBERS,
            st.none() | LISTS,
            st.none() | st.floats(0, DELAY_S_MAX),
            TEXTS.map(kept_of),
        ),
        max_size=3,
    ),
    st.lists(st.builds(Releases, NUMBERS, st.none() | LISTS), max_size=3),
    st.none() | st.lists(NUMBERS, max_size=3),
    st.none() | LEASES,
    st.booleans(),
)
TAKES = st.builds(
    Take,
    MEMBERS,
    st.integers(1, TAKE_MESSAGES_MAX),
    st.none() | st.integers(1, JSON_INTEGER_MAX),
    st.none() | LEASES,
    st.none() | COUNTS,
    st.booleans(),
    st.just(Settle()) | SETTLES,
)
REFUSED = st.builds(RefusedMessage, NUMBERS, st.none() | RAW_IDS, st.sampled_from(Refusal))
SETTLED = st.builds(Settled, COUNTS, st.lists(REFUSED, max_size=3))
COMMIT_ACKS = st.builds(
    CommitAcks, st.builds(TopicId, NAMES, NAMES), NAMES, MEMBERS, NUMBERS, LISTS
)


@st.composite
def takens(draw: st.DrawFn) -> Taken:
    """Generate answers to a take, whose messages have ascending ids."""
    contents = draw(st.lists(CONTENTS, max_size=5))
    ids = sorted(draw(st.sets(RAW_IDS, min_size=len(contents), max_size=len(contents))))
    messages = [
        Message(each.payload, each.key, each.headers, message_id, each.is_tombstone)
        for each, message_id in zip(contents, ids, strict=True)
    ]
    cut = draw(st.integers(0, len(messages)))
    blocks = [MessageBlock.of(part) for part in (messages[:cut], messages[cut:]) if part]
    attempts = st.lists(st.integers(1, 2**31 - 1), min_size=len(ids), max_size=len(ids))
    return Taken(
        draw(st.none() | NUMBERS),
        draw(st.integers(0, LEASE_S_MAX * 1000)) / 1000,
        blocks,
        draw(st.just([]) | attempts),
        draw(st.none() | st.sampled_from(LimitedBy)),
        draw(st.none() | NUMBERS),
        draw(SETTLED),
    )


def all_of(taken: Taken) -> list[Message]:
    return [message for block in taken.blocks for message in block]


@given(SETTINGS, PLACES)
def test_a_new_group_survives(settings: GroupSettings, place: Position) -> None:
    new = json_groups.decode_new(json_groups.encode_new_group(settings, place))

    assert new == (settings, place)


@given(PLACES)
def test_a_seek_survives(place: Position) -> None:
    assert json_groups.decode_seek(json_groups.encode_seek(place)) == place


@given(SETTINGS, st.sets(st.sampled_from(SETTABLE)), st.none() | COUNTS)
def test_changes_survive(settings: GroupSettings, names: set[str], version: int | None) -> None:
    changes = {name: getattr(settings, name) for name in names}

    assert json_groups.decode_changes(json_groups.encode_changes(changes, version)) == (
        changes,
        version,
    )


@given(GROUPS)
def test_a_group_survives(group: Group) -> None:
    assert json_groups.decode_group(json_groups.encode_group(group), ORDERS) == group


@given(
    st.lists(st.builds(GroupMember, MEMBERS, st.none() | TEXTS, COUNTS, COUNTS, COUNTS), max_size=3)
)
def test_members_survive(members: list[GroupMember]) -> None:
    assert json_groups.decode_members(json_groups.encode_members(members)) == members


@given(
    st.lists(
        st.builds(
            OpenMessage,
            RAW_IDS,
            COUNTS,
            st.sampled_from(("available", "leased", "waiting", "blocked")),
            st.none() | MEMBERS,
            st.none() | COUNTS,
        ),
        max_size=3,
    )
)
def test_open_messages_survive(messages: list[OpenMessage]) -> None:
    assert json_groups.decode_open(json_groups.encode_open(messages)) == messages


@given(TAKES)
def test_a_take_survives(take: Take) -> None:
    assert json_takes.decode_take(json_takes.encode_take(take)) == take


@given(MEMBERS, SETTLES)
def test_a_settle_survives(member: str, settle: Settle) -> None:
    assert json_takes.decode_settle(json_takes.encode_settle(member, settle)) == (member, settle)


@given(st.text(max_size=300))
def test_any_reason_goes_with_a_settle_as_far_as_it_is_kept(reason: str) -> None:
    body = json_takes.encode_settle("a", Settle(nacks=[Nacks(1, reason=reason)]))
    [nacks] = json_takes.decode_settle(body)[1].nacks

    assert nacks.reason == kept_of(reason) == kept_of(kept_of(reason))
    assert len(nacks.reason.encode()) <= REASON_BYTES_MAX
    assert reason.isascii() <= (nacks.reason == reason[:REASON_BYTES_MAX])


@given(SETTLED, st.none() | st.floats(1, LEASE_S_MAX))
def test_what_was_settled_survives(settled: Settled, lease_s: float | None) -> None:
    settled = dataclasses.replace(settled, lease_s=lease_s)
    assert json_takes.decode_settled(json_takes.encode_settled(settled)) == settled


@given(takens())
def test_what_is_taken_survives_in_avro(taken: Taken) -> None:
    answer = encode_taken(taken)
    found = decode_taken(answer)

    assert all_of(found) == all_of(taken)
    assert dataclasses.replace(found, blocks=()) == dataclasses.replace(taken, blocks=())
    read: Any = fastavro.schemaless_reader(io.BytesIO(answer), TAKEN_SCHEMA, None)
    assert (read["delivery"], read["lease_ms"]) == (taken.delivery, round(taken.lease_s * 1000))
    assert (read["limited_by"], read["attempts"]) == (taken.limited_by, taken.attempts)
    ids = [each["id"] for run in read["messages"] for part in run.values() for each in part]
    assert sorted(ids) == [each.id for each in all_of(taken)]


@given(takens())
def test_the_head_of_what_is_taken_survives_in_json(taken: Taken) -> None:
    head = json_takes.encode_taken_head(taken) + b"[]}"

    assert json_takes.decode_taken_head(head) == dataclasses.replace(taken, blocks=())
    assert json.loads(head)["messages"] == []


@given(
    st.dictionaries(NAMES, st.lists(CONTENTS.map(Message.body), max_size=3).map(bodies_of)),
    st.lists(COMMIT_ACKS, max_size=3),
    st.none() | TEXTS,
)
def test_acks_survive_in_a_commit_and_in_a_publish_to_several_topics(
    topics: dict[str, list[bytes]], acks: Sequence[CommitAcks], owner: str | None
) -> None:
    carried = CommitRequest(acks=tuple(acks))
    commit = json_transactions.decode_commit(json_transactions.encode_commit(carried))
    request = PublishAllRequest(topics, owner, None, carried)
    found = last_of(JSON.publish_all_steps(JSON.encode_publish_all(request), 1_000))

    assert commit.acks == carried.acks
    assert found == request
    assert [list(map(type, each)) for each in found.topics.values()] == [
        list(map(type, each)) for each in topics.values()
    ]


# Malformed bodies.

REQUESTS: list[tuple[Callable[[bytes], object], bytes]] = [
    (json_takes.decode_take, json_takes.encode_take(Take("a", settle=Settle([Acks(1)])))),
    (json_takes.decode_settle, json_takes.encode_settle("a", Settle([Acks(1, [bytes(20)])]))),
    (json_groups.decode_seek, json_groups.encode_seek(5)),
    (json_groups.decode_changes, json_groups.encode_changes({"lease_s": 5}, 7)),
    (json_groups.decode_new, json_groups.encode_new_group(GroupSettings(), SeekTo.END)),
]
ANSWERS: list[tuple[Callable[[bytes], object], bytes]] = [
    (json_takes.decode_settled, json_takes.encode_settled(Settled(1, []))),
    (json_groups.decode_members, json_groups.encode_members([GroupMember("a", None, 0, 0, 0)])),
    (
        json_groups.decode_open,
        json_groups.encode_open([OpenMessage(bytes(20), 0, "available", None, None)]),
    ),
]
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda each: (
        st.lists(each, max_size=2) | st.dictionaries(st.text(max_size=5), each, max_size=2)
    ),
    max_leaves=4,
)


@pytest.mark.parametrize(("decode", "body"), REQUESTS)
@given(data=st.data())
def test_a_field_of_another_kind_is_refused_and_named(
    decode: Callable[[bytes], object], body: bytes, data: st.DataObject
) -> None:
    told = json.loads(body)
    name = data.draw(st.sampled_from([*told, "another"]))
    told[name] = data.draw(JUNK)
    try:
        decode(json.dumps(told).encode())
    except InvalidRequest as error:
        assert error.problem.code in ("invalid_body", "invalid_message_id")
        assert set(error.detail) & {"reason", "expected", "id"}
        if "reason" in error.detail:
            assert name in str(error.detail["reason"]) or "kind" in str(error.detail["reason"])
    else:
        assert name != "another"


@pytest.mark.parametrize(("decode", "body"), [*REQUESTS, *ANSWERS])
def test_a_body_cut_off_or_too_long_is_refused(
    decode: Callable[[bytes], object], body: bytes
) -> None:
    decode(body)
    for end in range(1, len(body)):
        with pytest.raises((InvalidRequest, InternalError)):
            decode(body[:end])
    with pytest.raises((InvalidRequest, InternalError)):
        decode(body + b"\x00")


@pytest.mark.parametrize(("decode", "_body"), [*REQUESTS, *ANSWERS])
@given(raw=st.binary(max_size=40))
def test_any_bytes_are_understood_or_refused(
    decode: Callable[[bytes], object], _body: bytes, raw: bytes
) -> None:
    with suppress(InvalidRequest, InternalError):
        decode(raw)


@given(takens(), st.data())
def test_a_damaged_answer_to_a_take_is_understood_or_refused(
    taken: Taken, data: st.DataObject
) -> None:
    answer = bytearray(encode_taken(taken))
    at = data.draw(st.integers(0, len(answer) - 1))
    answer[at] = data.draw(st.integers(0, 255))
    del answer[data.draw(st.integers(at, len(answer))) :]
    with suppress(InvalidRequest):
        all_of(decode_taken(bytes(answer)))


@pytest.mark.parametrize(
    ("taken", "known", "unknown"),
    [
        (Taken(limited_by=LimitedBy.PAUSED), b"paused", b"pausee"),
        (Taken(settled=Settled(0, [RefusedMessage(1, None, Refusal.SETTLED)])), b"led", b"ler"),
        (Taken(attempts=[1, 1]), b"", b""),
    ],
)
def test_what_a_later_server_may_say_is_refused(taken: Taken, known: bytes, unknown: bytes) -> None:
    answer = encode_taken(taken).replace(known, unknown)
    with pytest.raises(InvalidRequest) as refused:
        decode_taken(answer)
    assert refused.value.problem.code == "invalid_body"
