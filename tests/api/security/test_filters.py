"""A filter shows nothing that its reader may not read, and its scan ends when the right ends."""

import pytest

from tests.api.rest import TOPIC
from tests.api.security.secured import Pair
from tms.core.values.frame import bodies_of
from tms.core.values.message import FIRST_ID, Message, id_after
from tms.core.values.topic import TopicId
from tms.security.resources import Action

pytestmark = pytest.mark.anyio

T = TopicId("ns", "t")


@pytest.fixture
async def last(pair: Pair) -> bytes:
    """The last of three messages; nothing but the second has the key `a`."""
    await pair.services.messaging.create_topic(T)
    bodies = bodies_of([Message(key, key).body() for key in (b"b", b"a", b"b")])
    return (await pair.services.messaging.publish(T, bodies))[-1]


@pytest.mark.parametrize("way", ["directly", "forwarded"])
async def test_only_readers_of_the_topic_may_filter_it(pair: Pair, last: bytes, way: str) -> None:
    await pair.allow("ann", Action.CONSUME, name="t")
    await pair.allow("bob", Action.PUBLISH, Action.DESCRIBE, name="t")
    http = pair.servers[way].http

    for text, status in (('key = "a"', 200), ('key = "none"', 200), ("key", 400)):
        body = {"filter": text}
        answer = await http.post(f"{TOPIC}/poll", json=body, headers=await pair.token("ann"))
        assert answer.status_code == status
        if status == 200:
            assert len(answer.json()) == ('"a"' in text)
            assert answer.headers["tms-next-position"] == id_after(last).hex()
        refused = await http.post(f"{TOPIC}/poll", json=body, headers=await pair.token("bob"))
        assert refused.status_code == 403
        assert "tms-next-position" not in refused.headers


async def test_a_scan_ends_when_its_reader_loses_the_right(
    pair: Pair, last: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tms.messaging.reader.READ_MAX", 1)
    await pair.allow("ann", Action.CONSUME, name="t")
    headers = await pair.token("ann")
    messaging = pair.services.messaging
    read, positions = messaging.page, []

    async def revoking(*args: object, **named: object) -> object:
        positions.append(args[1].position)  # type: ignore[attr-defined]
        await pair.revoke(headers)
        return await read(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(messaging, "page", revoking)
    answer = await pair.servers["directly"].http.post(
        f"{TOPIC}/poll", json={"filter": 'key = "a"'}, headers=headers
    )
    assert answer.status_code == 401
    assert positions == [FIRST_ID]
