"""Bodies of transactions and subscriptions that are not what they should be."""

import json
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tms.core.commits import CommitRequest, Stored
from tms.core.errors import InvalidRequest, TooLarge
from tms.core.messaging import AllPublished
from tms.core.subscriptions import Advance
from tms.core.topic import TopicId
from tms.core.transactions import StartRequest
from tms.wire.avro_bodies import AVRO
from tms.wire.caps import changes_cap, messages_cap
from tms.wire.json_bodies import JSON
from tms.wire.transaction_bodies import (
    Move,
    PublishAllRequest,
    StartedTransaction,
    Truncation,
)

CHANGES = changes_cap(1000)
MESSAGES = messages_cap(1000)
ORDERS = TopicId("default", "orders")


def json_body(**fields: object) -> bytes:
    return json.dumps(fields).encode()


ID = "00" * 20
WRONG_JSON: list[tuple[Callable[[bytes], object], bytes]] = [
    (decode, body)
    for decode, bodies in (
        (
            JSON.transactions.decode_start,
            [
                b"[]",
                b'{"type": "medium"}',
                b'{"type": 1}',
                b'{"timeout_s": "5"}',
                b'{"timeout_s": 1.5}',
                b'{"timeout_s": 9223372036854775808}',
                b'{"sequence": true}',
                b'{"owner": 5}',
                b'{"client": null}',
                b'{"if_open": "wait"}',
                b'{"unknown": 1}',
            ],
        ),
        (
            lambda body: JSON.transactions.decode_changes(body, CHANGES),
            [b"", b"{}", b'{"changes": "a"}', b'{"changes": [5]}', b'{"changes": [{}]}'],
        ),
        (
            JSON.transactions.decode_commit,
            [
                b"[]",
                b'{"advances": [{}]}',
                b'{"publish": [{}]}',
                b'{"publish": [{"namespace": "n", "topic": "t", "write_pointer": null}]}',
                json_body(
                    advances=[{"namespace": "n", "topic": "t", "subscription": "s", "after": ID}]
                ),
            ],
        ),
        (JSON.transactions.decode_truncation, [b"", b'{"ids": "1"}', b'{"before_ms": "1"}']),
        (
            lambda body: JSON.transactions.decode_publish_all(body, MESSAGES),
            [b"", b"{}", b'{"topics": []}', b'{"topics": {"a": "b"}}', b'{"topics": {"a": [1]}}'],
        ),
        (JSON.subscriptions.decode_position, [b"[]", b'{"after": 5}', b'{"before": null}']),
        (JSON.subscriptions.decode_move, [b"", b"{}", json_body(after=ID)]),
    )
    for body in bodies
]


@pytest.mark.parametrize(("decode", "body"), WRONG_JSON)
def test_wrong_json_is_refused(decode: Callable[[bytes], object], body: bytes) -> None:
    with pytest.raises(InvalidRequest) as refused:
        decode(body)
    assert refused.value.problem.code == "invalid_body"


AVRO_DECODERS: list[tuple[Callable[[bytes], object], bytes]] = [
    (
        AVRO.transactions.decode_start,
        AVRO.transactions.encode_start(
            StartRequest(timeout_s=5, client="me", owner="o", sequence=7)
        ),
    ),
    (
        AVRO.transactions.decode_started,
        AVRO.transactions.encode_started(StartedTransaction(1, 2, 3, b"abc")),
    ),
    (
        lambda body: AVRO.transactions.decode_changes(body, CHANGES),
        AVRO.transactions.encode_changes([b"a", b"bc"]),
    ),
    (
        AVRO.transactions.decode_commit,
        AVRO.transactions.encode_commit(
            CommitRequest([Advance(ORDERS, "s", bytes(20), 3)], [Stored(ORDERS, 5)])
        ),
    ),
    (
        AVRO.transactions.decode_truncation,
        AVRO.transactions.encode_truncation(Truncation([1, 2])),
    ),
    (
        lambda body: AVRO.transactions.decode_publish_all(body, MESSAGES),
        AVRO.transactions.encode_publish_all(PublishAllRequest({"a": [b"1"]}, "o", 1)),
    ),
    (
        AVRO.transactions.decode_published_all,
        AVRO.transactions.encode_published_all(AllPublished(5, is_duplicate=True)),
    ),
    (AVRO.subscriptions.decode_position, AVRO.subscriptions.encode_position(bytes(20))),
    (AVRO.subscriptions.decode_move, AVRO.subscriptions.encode_move(Move(bytes(20), 3))),
]


@pytest.mark.parametrize(("decode", "body"), AVRO_DECODERS)
def test_avro_cut_off_or_too_long_is_refused(
    decode: Callable[[bytes], object], body: bytes
) -> None:
    for end in range(1, len(body)):
        with pytest.raises(InvalidRequest):
            decode(body[:end])
    with pytest.raises(InvalidRequest):
        decode(body + b"\x00")


@pytest.mark.parametrize(("decode", "_body"), AVRO_DECODERS)
@given(raw=st.binary(max_size=40))
def test_any_bytes_are_understood_or_refused(
    decode: Callable[[bytes], object], _body: bytes, raw: bytes
) -> None:
    with suppress(InvalidRequest, TooLarge):
        decode(raw)
