"""Malformed bodies of transactions, subscriptions and publishes to several topics."""

import json
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tms.core.errors import InvalidRequest, TooLarge
from tms.core.services.commits import CommitRequest, Stored
from tms.core.services.messaging import AllPublished
from tms.core.services.transactions import StartRequest
from tms.core.values.subscriptions import Advance
from tms.core.values.topic import TopicId
from tms.wire import json_subscriptions, json_transactions
from tms.wire.avro_bodies import AVRO
from tms.wire.bodies import PublishAllRequest, last_of
from tms.wire.json_bodies import JSON

MANY = 1000
ORDERS = TopicId("default", "orders")


def json_body(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def decode_move(body: bytes) -> object:
    return json_subscriptions.decode_move(body, ORDERS, "s")


ID = "00" * 20
WRONG_JSON: list[tuple[Callable[[bytes], object], bytes]] = [
    (decode, body)
    for decode, bodies in (
        (
            json_transactions.decode_start,
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
            lambda body: json_transactions.decode_changes(body, MANY),
            [b"", b"{}", b'{"changes": "a"}', b'{"changes": [5]}', b'{"changes": [{}]}'],
        ),
        (
            json_transactions.decode_commit,
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
        (json_transactions.decode_truncation, [b"", b'{"ids": "1"}', b'{"before_ms": "1"}']),
        (
            lambda body: last_of(JSON.publish_all_steps(body, MANY)),
            [b"", b"{}", b'{"topics": []}', b'{"topics": {"a": "b"}}', b'{"topics": {"a": [1]}}'],
        ),
        (json_subscriptions.decode_position, [b"[]", b'{"after": 5}', b'{"before": null}']),
        (decode_move, [b"", b"{}", json_body(after=ID)]),
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
        lambda body: last_of(AVRO.publish_all_steps(body, MANY)),
        AVRO.encode_publish_all(PublishAllRequest({"a": [b"1"]}, "o", 1)),
    ),
    (
        AVRO.decode_published_all,
        AVRO.encode_published_all(AllPublished(5, is_duplicate=True)),
    ),
]
JSON_DECODERS: list[tuple[Callable[[bytes], object], bytes]] = [
    (
        json_transactions.decode_start,
        json_transactions.encode_start(
            StartRequest(timeout_s=5, client="me", owner="o", sequence=7)
        ),
    ),
    (
        lambda body: json_transactions.decode_changes(body, MANY),
        json_transactions.encode_changes([b"a", b"bc"]),
    ),
    (
        json_transactions.decode_commit,
        json_transactions.encode_commit(
            CommitRequest([Advance(ORDERS, "s", bytes(20), 3)], [Stored(ORDERS, 5)])
        ),
    ),
    (json_transactions.decode_truncation, json_transactions.encode_truncation(ids=[1, 2])),
    (json_subscriptions.decode_position, json_subscriptions.encode_position(bytes(20))),
    (decode_move, json_subscriptions.encode_move(Advance(ORDERS, "s", bytes(20), 3))),
]
DECODERS = [*AVRO_DECODERS, *JSON_DECODERS]


@pytest.mark.parametrize(("decode", "body"), DECODERS)
def test_a_body_cut_off_or_too_long_is_refused(
    decode: Callable[[bytes], object], body: bytes
) -> None:
    for end in range(1, len(body)):
        with pytest.raises(InvalidRequest):
            decode(body[:end])
    with pytest.raises(InvalidRequest):
        decode(body + b"\x00")
    decode(body)


@pytest.mark.parametrize(("decode", "_body"), DECODERS)
@given(raw=st.binary(max_size=40))
def test_any_bytes_are_understood_or_refused(
    decode: Callable[[bytes], object], _body: bytes, raw: bytes
) -> None:
    with suppress(InvalidRequest, TooLarge):
        decode(raw)
