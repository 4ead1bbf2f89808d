"""Calls that people guess before reading the documentation work, or fail with the right call."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import tms
import tms.aio
from tests.cli.conftest import run_command
from tests.servers.server_process import ServerProcess

SCHEMA = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}'


def test_one_message_has_its_key_and_headers_beside_it(topic: tms.Topic) -> None:
    topic.publish(b"19.90", key=b"apples", headers={"currency": b"EUR"})
    topic.publish(b"", key=b"")
    topic.publish(b"x", headers={})
    assert [each._replace(id=b"") for each in topic.poll()] == [
        tms.Message(b"19.90", key=b"apples", headers={"currency": b"EUR"}),
        tms.Message(b"", key=b""),
        tms.Message(b"x"),
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([b"1", b"2"], "those of one message"),
        (tms.Message(b"1"), "those of one message"),
        ("text", "those of one message"),
        ({"n": 1}, "those of one message"),
    ],
)
def test_several_messages_have_no_key_beside_them(
    topic: tms.Topic, given: object, said: str
) -> None:
    with pytest.raises(TypeError, match=said):
        topic.publish(given, key=b"k")
    with pytest.raises(TypeError, match="a key is bytes, not str"):
        topic.publish(b"x", key="k")
    with pytest.raises(TypeError, match="headers are a mapping"):
        topic.publish(b"x", headers={"a": "1"})  # type: ignore[dict-item]
    assert list(topic.poll()) == []


def test_a_value_has_its_key_beside_it_too(topic: tms.Topic) -> None:
    topic.publish({"n": 1}, schema=SCHEMA, key=b"k", headers={"a": b"1"})
    topic.publish({"n": 2}, schema=SCHEMA, key={"n": 3}, key_schema=SCHEMA)
    one, _ = topic.poll(decode=True)
    assert (one.value, one.key, dict(one.headers)) == ({"n": 1}, b"k", {"a": b"1"})
    [two] = topic.poll(after=one, decode=tms.Decoding(keys=True))
    assert (two.value, two.key) == ({"n": 2}, {"n": 3})
    for given in ([{"n": 1}], tms.Record({"n": 1})):
        with pytest.raises(TypeError, match=r"tms\.Record"):
            topic.publish(given, schema=SCHEMA, key=b"k")


def test_a_key_is_published_in_a_transaction(client: tms.Client, topic: tms.Topic) -> None:
    with client.transaction() as tx:
        topic.publish(b"x", tx, key=b"k")
        topic.publish(b"y", tx, key=b"l", buffer=True)
    assert [each.key for each in topic.poll()] == [b"k", b"l"]


def test_a_topic_of_another_namespace(client: tms.Client, namespace: str) -> None:
    other = client.topic(f"{namespace}_other:t")
    assert (other.namespace, other.name) == (f"{namespace}_other", "t")
    other.create()
    with client.transaction(home=f"{namespace}_other:t") as tx:
        other.publish(b"x", tx)
    other.group("g").create()
    [message] = other.group("g").take_once()
    message.ack()
    assert client.topics() == []
    assert client.topic(f"{namespace}:t").namespace == namespace
    for wrong in ("a:b:c", ":t", "n:", "a b"):
        with pytest.raises(tms.InvalidRequest):
            client.topic(wrong)


@pytest.mark.parametrize("store_kind", ["memory", "server"])
@pytest.mark.anyio
async def test_a_client_is_awaited_or_entered(url: str, namespace: str) -> None:
    async with tms.aio.connect(url, namespace) as client:
        await client.topic("t").create()
    assert client._closed
    async with await tms.aio.connect(url, namespace) as client:
        assert client.namespace == namespace
    for way in (
        asyncio.create_task(tms.aio.connect(url, namespace)),
        asyncio.wait_for(tms.aio.connect(url, namespace), 60),
    ):
        await (await way).close()
    with pytest.raises(ValueError, match="cannot connect"):
        async with tms.aio.connect("ftp://x"):
            raise AssertionError
    with pytest.warns(RuntimeWarning, match="never awaited"):
        tms.aio.connect(url)


@pytest.mark.parametrize("store_kind", ["memory"])
def test_a_group_that_is_there_as_asked(topic: tms.Topic) -> None:
    group = topic.group("g")
    made = group.create(order="key", lease_s=7, exist_ok=True)
    assert made.settings.lease_s == 7
    group.set(paused=True)
    found = group.create(order="key", lease_s=7, exist_ok=True)
    assert (found.version, found.settings.paused) == (group.show().version, True)
    assert group.create(order="key", after="end", exist_ok=True) == found
    with pytest.raises(tms.SubscriptionExists) as other:
        group.create(order="key", lease_s=8, open_max=5, exist_ok=True)
    assert other.value.detail["reason"] == "lease_s is 7, not 8, open_max is 10000, not 5"
    with pytest.raises(tms.SubscriptionExists, match="order is key, not none"):
        group.create(exist_ok=True)


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[tuple[ServerProcess, Path]]:
    folder = tmp_path / "own"
    assert run_command("auth", "init", str(folder))[0] == 0
    with ServerProcess("memory:", "--config", str(folder / "tms.toml")) as server:
        yield server, folder
        assert server.stop() == 0


def test_no_right_to_create_is_needed_for_what_is_there(
    secured: tuple[ServerProcess, Path],
) -> None:
    server, folder = secured
    ca = folder / "ca.pem"
    options = ("--url", server.url, "--ca", str(ca), "--token-file", str(folder / "token"))
    with tms.connect(server.url, ca=ca, auth=folder / "token") as admin:
        topic = admin.topic("t")
        topic.create()
        topic.group("g").create(lease_s=7)
        topic.subscription("s").create()
        position = topic.subscription("s").position()
    for rule in ("take,describe,publish", "subscribe"):
        principal = "worker" if "take" in rule else "reader"
        assert run_command("auth", "grant", principal, rule, "default:t", *options)[0] == 0
        code, out, err = run_command("auth", "token", principal, *options)
        assert code == 0, err
        (tmp := folder / principal).write_text(out.split()[-1])
        tmp.chmod(0o600)

    with tms.connect(server.url, ca=ca, auth=folder / "worker") as worker:
        topic = worker.topic("t")

        assert topic.group("g").create(lease_s=7, exist_ok=True).settings.lease_s == 7
        topic.create(exist_ok=True)
        with pytest.raises(tms.NotPermitted):
            topic.group("g").create(lease_s=7)
        with pytest.raises(tms.NotPermitted):
            topic.group("other").create(exist_ok=True)
        with pytest.raises(tms.NotPermitted):
            topic.create()
    with tms.connect(server.url, ca=ca, auth=folder / "reader") as reader:
        assert reader.topic("t").subscription("s").create(exist_ok=True) == position


def test_any_form_of_a_message_says_where_to_begin(topic: tms.Topic) -> None:
    ids = topic.publish([b"1", b"2"])
    group = topic.group("g")
    group.create()
    one, _ = group.take_once(2)
    [record] = topic.poll(limit=1, decode=tms.Decoding(damaged="give"))
    for form in (one, record, ids[0], ids[0].hex(), tms.MessageId.decode(ids[0])):
        assert [each.payload for each in topic.poll(after=form)] == [b"2"]
        assert [each.id for each in group.open(after=form)] == [ids[1]]
    topic.subscription("s").create(after=one)
    group.seek(one)
    topic.publish(b"3", if_last=list(topic.poll())[-1])


def test_ids_are_shown_in_one_form(topic: tms.Topic) -> None:
    [first] = topic.publish(b"\x01")
    topic.group("g").create()
    topic.group("g").take_once()
    [record] = topic.poll(decode=tms.Decoding(damaged="give"))
    for shown in (
        *topic.poll(),
        record,
        topic.range(),
        topic.group("g").show(),
        topic.group("g").show().state,
        *topic.group("g").open(),
        *topic.groups(),
    ):
        assert first.hex() in repr(shown), shown
        assert repr(first) not in repr(shown)
