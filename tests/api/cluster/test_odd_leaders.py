"""A follower whose leader answers incorrectly."""

import asyncio

import httpx
import pytest

from tests.api.cluster.peers import OK, Talk, answer_all, answering, peer_that
from tests.api.cluster.standing_by import ID, Second
from tests.api.rest import TOPIC, TOPICS, Live, refusal
from tests.waiting import turns, until

pytestmark = pytest.mark.anyio


async def test_the_answer_says_who_gave_it(second: Second, leader: Live) -> None:
    answer = await second.http.get(TOPICS, headers={"TMS-Leader": "http://evil"})
    assert answer.headers.get_list("tms-leader") == [f"http://127.0.0.1:{leader.port}"]
    assert "tms-leader" not in (await leader.http.get(TOPICS)).headers

    claiming = b"HTTP/1.1 200 OK\r\ntms-leader: http://evil\r\ncontent-length: 0\r\n\r\n"
    async with peer_that(answering(claiming)) as peer:
        second.forwarder.forward_to(peer.url)
        answer = await second.http.get(TOPICS)
        assert answer.headers.get_list("tms-leader") == [peer.url]


async def test_both_heads_are_handed_on_as_they_came(second: Second) -> None:
    requests = []

    async def behave(talk: Talk) -> None:
        requests.append(await talk.request())
        await talk.say(b"HTTP/1.1 299 Odd\r\nX-One: a\r\nx-one: b\r\ncontent-length: 2\r\n\r\nok")

    async with peer_that(behave) as peer:
        second.forwarder.forward_to(peer.url)
        wire = await second.connect()
        wire.writer.write(
            b"POST /v1/namespaces/ns/topics/a%2Fb/publish?c HTTP/1.1\r\n"
            b"host: localhost\r\nX-Two: 1\r\nx-two:2\r\nte: x\r\n"
            b"authorization: Bearer t\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\nb"
        )
        head = await wire.reader.readuntil(b"\r\n\r\n")
        assert await wire.reader.readexactly(2) == b"ok"
        await wire.close()
    host = peer.url.removeprefix("http://")
    assert requests == [
        b"POST /v1/namespaces/ns/topics/a%%2Fb/publish?c HTTP/1.1\r\nhost: %s\r\n"
        b"x-two: 1\r\nx-two: 2\r\ncontent-length: 1\r\n"
        b"tms-forwarded-by: %d\r\nauthorization: Bearer t\r\n\r\nb" % (host.encode(), ID)
    ]
    status, *lines = head.decode().split("\r\n")
    assert status.startswith("HTTP/1.1 299")
    assert [line for line in lines if line and not line.startswith("date")] == [
        "X-One: a",
        "x-one: b",
        "content-length: 2",
        f"tms-forwarded-by: {ID}",
        f"tms-leader: {peer.url}",
    ]


async def test_a_cookie_of_one_client_is_not_sent_for_another(second: Second) -> None:
    requests = []

    async def behave(talk: Talk) -> None:
        while True:
            requests.append(await talk.request())
            await talk.say(b"HTTP/1.1 200 OK\r\nset-cookie: a=b\r\ncontent-length: 0\r\n\r\n")

    async with peer_that(behave) as peer:
        second.forwarder.forward_to(peer.url)
        for _ in range(2):
            async with httpx.AsyncClient(
                base_url=second.http.base_url, trust_env=False, verify=False
            ) as other:
                assert (await other.get(TOPICS)).headers["set-cookie"] == "a=b"
    assert len(requests) == 2
    assert not [each for each in requests if b"cookie" in each.lower()]


async def test_what_is_not_an_answer_leaves_the_outcome_unknown(second: Second) -> None:
    for said in (
        b"",
        b"HTTP/1.1 200 OK\r\nconte",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"no HTTP at all\r\n",
    ):
        async with peer_that(answering(said)) as peer:
            second.forwarder.forward_to(peer.url)
            assert refusal(await second.http.put(TOPIC)) == (504, "outcome_unknown")
            peer.behaviour = answer_all
            assert (await second.http.put(TOPIC)).content == b"ok"


async def test_half_an_answer_cuts_the_connection_of_the_client(second: Second) -> None:
    half = (
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
    )
    for said in half:
        async with peer_that(answering(said)) as peer:
            second.forwarder.forward_to(peer.url)
            with pytest.raises(httpx.RemoteProtocolError):
                await second.http.get(TOPICS)


async def test_a_client_gets_no_more_than_was_announced(second: Second) -> None:
    async with peer_that(answering(OK + OK)) as peer:
        second.forwarder.forward_to(peer.url)
        wire = await second.connect()
        for _ in range(2):
            await wire.send("GET", TOPICS)
            assert (await wire.answer())[2] == b"ok"
        await wire.close()
        assert len(peer.talks) == 2


async def test_an_answer_before_the_end_of_the_body_is_handed_on(second: Second) -> None:
    refused = b"HTTP/1.1 409 No\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno"

    async def behave(talk: Talk) -> None:
        await talk.head()
        await talk.say(refused)
        await asyncio.Event().wait()

    async with peer_that(behave) as peer:
        second.forwarder.forward_to(peer.url)
        wire = await second.connect()
        await wire.send("POST", f"{TOPIC}/publish", b"x", {"content-length": "100000"})
        await turns(20)
        wire.writer.write(b"x")
        status, headers, body = await wire.answer()
        assert (status, headers["connection"], body) == (409, "close", b"no")
        await wire.close()


async def test_a_leader_that_never_answers_is_left_with_its_client(second: Second) -> None:
    ended = []

    async def behave(talk: Talk) -> None:
        await talk.request()
        ended.append(await talk.ended())

    async with peer_that(behave) as peer:
        second.forwarder.forward_to(peer.url)
        wire = await second.connect()
        await wire.send("GET", f"{TOPICS}?wait=60")
        await until(lambda: len(peer.talks) == 1)
        await wire.close()
        await until(lambda: ended == [b""])


async def test_when_another_leads_a_client_that_does_not_read_is_cut_off(second: Second) -> None:
    part = b"x" * 64 * 1024

    async def behave(talk: Talk) -> None:
        await talk.request()
        await talk.say(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (1 << 40))
        while True:
            await talk.say(part)

    async with peer_that(behave) as peer:
        second.forwarder.forward_to(peer.url)
        wire = await second.connect()
        await wire.send("GET", TOPICS)
        await wire.reader.readuntil(b"\r\n\r\n")
        way = second.forwarder._ways.present
        assert way is not None
        await turns(200)
        assert len(way.at_work) == 1
        second.forwarder.forward_to(None)
        await until(lambda: not way.at_work)
        rest = await wire.reader.read()
        assert len(rest) < 1 << 30, "and then comes the end"
        await wire.close()
