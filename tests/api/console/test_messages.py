"""Messages in the console: search, display with their fate, explanation, download and publish."""

import re
import time

import pytest

from api.console.payload_forms import in_lines
from tests.api.console.site import NS, PAGE, TOPIC, Site, site
from tests.work import lines_of
from tms.core.services.transactions import StartRequest
from tms.core.values.frame import bodies_of, encode_body
from tms.core.values.message import Message
from tms.core.values.reading import Reading
from tms.core.values.topic import TopicId
from tms.security.resources import Action

pytestmark = pytest.mark.anyio

_ROW = re.compile(
    r'<td class="(?:good|warn|bad|soft)">([\w ]+)</td>.*?<td class="payload"><(?:code|em)>(.*?)</',
    re.DOTALL,
)
HOSTILE = {
    "html": b"<script>alert(1)</script><img src=x onerror=alert(1)>",
    "ansi": b"\x1b[31mred\x1b[0m",
    "right-to-left": "abc\u202e\u2066gnp.exe".encode(),
    "broken": b"\xff\xfe\x80 broken",
    "deep JSON": b"[" * 800 + b"0," * 7_000 + b"0" + b"]" * 800,
    "deeper JSON": b"[" * 100_000,
    "large": b"x" * (10 * 1024 * 1024 - 5000),
}


def rows_of(page: str) -> list[tuple[str, str]]:
    """Return the fates and payloads of a list."""
    return _ROW.findall(page)


async def messages_of(opened: Site, topic_id: TopicId = TOPIC) -> list[Message]:
    page = await opened.services.messaging.page(topic_id, Reading(bytes(20), 1000))
    return [message for block in page.blocks for message in block]


async def publish(
    opened: Site, payload: bytes | None, key: bytes | None = None, **headers: bytes
) -> bytes:
    [body] = bodies_of([encode_body(payload, key, headers)])
    return (await opened.services.messaging.publish(TOPIC, [body]))[0]


async def test_the_newest_are_shown_first_and_asked_for_again(open_site: Site) -> None:
    await open_site.create()
    browser = open_site.browser
    assert "There are none" in await browser.get(f"{PAGE}/messages")
    for number in range(3):
        await open_site.services.messaging.publish(
            TOPIC, [b"m%05d" % (number * 1000 + each) for each in range(1000)]
        )
    page = await browser.get(f"{PAGE}/messages")
    assert rows_of(page) == [("committed", f"m{2999 - each:05}") for each in range(50)]
    assert page.count("hx-trigger") == 1
    assert 'hx-trigger="every 2s"' in page


async def test_the_newest_of_a_stored_batch_and_of_large_messages(open_site: Site) -> None:
    await open_site.create()
    services, browser = open_site.services, open_site.browser
    transaction = await services.transactions.start(StartRequest())
    pointer = transaction.write_pointer
    await services.messaging.store(TOPIC, [b"s%04d" % each for each in range(500)], pointer)
    await services.messaging.publish(TOPIC, [], pointer)
    page = await browser.get(f"{PAGE}/messages")
    assert rows_of(page)[0] == ("open", "s0499")
    await services.transactions.commit(transaction.transaction_id)
    assert rows_of(await browser.get(f"{PAGE}/messages"))[0] == ("committed", "s0499")
    await services.messaging.publish(TOPIC, [b"L" * 2_000_000] * 3)
    page = await browser.get(f"{PAGE}/messages")
    assert rows_of(page)[0][1].startswith("LLL")


async def test_messages_from_a_time_and_an_id_come_in_pages(open_site: Site) -> None:
    await open_site.create()
    ids = await open_site.services.messaging.publish(TOPIC, [b"%03d" % each for each in range(120)])
    browser = open_site.browser
    page = await browser.get(f"{PAGE}/messages", id=ids[10].hex())
    assert [payload for _, payload in rows_of(page)] == [f"{each:03}" for each in range(10, 60)]
    assert "hx-trigger" not in page
    [after] = re.findall(r"after=([0-9a-f]{40})", page)
    page = await browser.get(f"{PAGE}/messages", after=after)
    assert rows_of(page)[0][1] == "060"
    page = await browser.get(f"{PAGE}/messages", at="2020-01-01T00:00:00Z")
    assert rows_of(page)[0][1] == "000"
    page = await browser.get(f"{PAGE}/messages", at="2999-01-01")
    assert rows_of(page) == []
    for bad in ({"at": "yesterday"}, {"id": "12"}, {"after": "zz"}, {"at": "1700000000"}):
        assert (await browser.ask(f"{PAGE}/messages", **bad)).status_code == 400


async def test_a_search_by_key_says_how_far_it_looked(open_site: Site) -> None:
    await open_site.create()
    for number in range(5):
        await publish(open_site, b"k%d" % number, b"even" if number % 2 == 0 else b"odd")
    page = await open_site.browser.get(f"{PAGE}/messages", key="even")
    assert [payload for _, payload in rows_of(page)] == ["k0", "k2", "k4"]
    assert "5 messages searched, up to the end" in page
    await publish(open_site, b"bytes", b"\xff\x00")
    page = await open_site.browser.get(f"{PAGE}/messages", key="0xff 00")
    assert [payload for _, payload in rows_of(page)] == ["bytes"]
    await open_site.services.messaging.publish(TOPIC, [b""] * 25_000)
    page = await open_site.browser.get(f"{PAGE}/messages", key="not there")
    assert "The next page continues the search" in page
    assert "Next page" in page


async def test_each_message_has_its_fate_by_word(open_site: Site) -> None:
    await open_site.create()
    services, browser = open_site.services, open_site.browser
    aborted, invalid, committed, running = [
        await services.transactions.start(StartRequest()) for _ in range(4)
    ]
    written = await services.messaging.publish(TOPIC, [b"aborted"], aborted.write_pointer)
    assert written.rollback_range is not None
    await services.messaging.publish(TOPIC, [b"invalid"], invalid.write_pointer)
    await services.messaging.publish(TOPIC, [b"committed"], committed.write_pointer)
    await services.messaging.rollback(TOPIC, written.rollback_range)
    await services.transactions.abort(aborted.transaction_id)
    await services.transactions.commit(committed.transaction_id)
    await services.transactions.invalidate(invalid.transaction_id)
    before = {payload: fate for fate, payload in rows_of(await browser.get(f"{PAGE}/messages"))}
    assert before == {
        "aborted": "rolled back",
        "invalid": "rolled back",
        "committed": "committed",
    }
    await services.messaging.publish(TOPIC, [b"running"], running.write_pointer)
    later = await services.transactions.start(StartRequest())
    await services.messaging.publish(TOPIC, [b"later invalid"], later.write_pointer)
    await services.transactions.invalidate(later.transaction_id)
    await services.messaging.publish(TOPIC, [b"behind"])
    after = {payload: fate for fate, payload in rows_of(await browser.get(f"{PAGE}/messages"))}
    assert after == {
        **before,
        "running": "open",
        "later invalid": "rolled back",
        "behind": "held up",
    }


async def test_fates_where_another_system_manages_transactions(anyio_backend: object) -> None:
    async with site(own=False) as opened:
        await opened.create()
        pointer = time.time_ns()
        written = await opened.services.messaging.publish(TOPIC, [b"gone"], pointer)
        assert written.rollback_range is not None
        await opened.services.messaging.rollback(TOPIC, written.rollback_range)
        await opened.services.messaging.publish(TOPIC, [b"there"], pointer)
        page = await opened.browser.get(f"{PAGE}/messages")
        assert rows_of(page) == [("published", "there"), ("rolled back", "gone")]
        assert '<rect class="stop"' not in await opened.browser.get(PAGE)


async def test_superseded_and_expired_messages_are_reported(open_site: Site) -> None:
    await open_site.create(cleanup="compact")
    old = await publish(open_site, b"old", b"k")
    new = await publish(open_site, b"new", b"k")
    browser = open_site.browser
    page = await browser.get(f"{PAGE}/messages")
    assert rows_of(page) == [("committed", "new"), ("superseded", "old")]
    page = await browser.get(f"{PAGE}/messages/{old.hex()}")
    assert "superseded" in page
    assert new.hex() in page
    assert "compaction removes this" in page
    await open_site.services.messaging.update_topic(TOPIC, {})
    await open_site.services.messaging.trim_topic(TOPIC, int.from_bytes(new[:8]) + 1)
    page = await browser.get(f"{PAGE}/messages/{new.hex()}")
    assert '<strong class="soft">expired</strong>' in page


async def test_payloads_are_shown_in_each_form_and_saved(open_site: Site) -> None:
    await open_site.create()
    payload = b'{"a": [1, "<b>"]}'
    message_id = await publish(open_site, payload, b"key", name=b"value")
    browser, path = open_site.browser, f"{PAGE}/messages/{message_id.hex()}"
    page = await browser.get(path)
    assert "{&#34;a&#34;: [1, &#34;&lt;b&gt;&#34;]}" in page
    assert "<dt>header name</dt><dd><code>value</code>" in page
    assert "<code>key</code>" in page
    assert "{\n  &#34;a&#34;: [" in await browser.get(path, form="json")
    assert "7b 22 61" in await browser.get(path, form="hex")
    assert (await browser.get(path, form="schema")).count("<pre") == 1
    saved = await browser.ask(f"{path}/payload")
    assert saved.content == payload
    assert saved.headers["content-type"] == "application/octet-stream"
    assert saved.headers["x-content-type-options"] == "nosniff"
    assert saved.headers["content-disposition"].startswith("attachment; filename=")


@pytest.mark.parametrize("kind", HOSTILE)
async def test_hostile_payloads_keys_and_headers_are_shown_harmlessly(
    open_site: Site, kind: str
) -> None:
    await open_site.create()
    value = HOSTILE[kind]
    short = value[:1000]
    name = short.decode("utf-8", "backslashreplace")[:200]
    message_id = await publish(open_site, value, short, **{name: short})
    path = f"{PAGE}/messages"
    pages = [
        await open_site.browser.ask(where, form=form)
        for where in (path, f"{path}/{message_id.hex()}")
        for form in ("text", "json", "hex", "schema")
    ]
    pages.append(await open_site.browser.ask(path, key=short.decode("utf-8", "replace")))
    for page in pages:
        assert page.status_code == 200
        assert len(page.content) <= 200 * 1024
        assert "unsafe-inline" not in page.headers["content-security-policy"]
        for harm in ("<script>alert", "<img", "\x1b", "\u202e", "\u2066", "\ufffd"):
            assert harm not in page.text.replace('value="' + short.decode("utf-8", "replace"), "")
    saved = await open_site.browser.ask(f"{path}/{message_id.hex()}/payload")
    assert saved.content == value
    assert "content-encoding" not in saved.headers


def test_json_in_one_line_takes_no_work_for_each_of_its_parts() -> None:
    value = b"[" * 500 + b"0," * 30_000 + b"0" + b"]" * 500
    assert lines_of(lambda: in_lines(value, len(value), 0)) < 100


async def test_a_list_of_the_worst_messages_is_small_enough(open_site: Site) -> None:
    await open_site.create()
    worst = b"\x00" * 5000
    for _ in range(50):
        await publish(
            open_site, worst, worst[:1000], **{f"n{each}": worst[:600] for each in range(20)}
        )
    page = await open_site.browser.ask(f"{PAGE}/messages")
    assert len(page.content) <= 200 * 1024


async def test_messages_are_published_by_a_form(open_site: Site) -> None:
    await open_site.create()
    browser = open_site.browser
    await browser.get(f"{PAGE}/messages")
    fields = {"payload": "a\r\nb", "kind": "text", "key": "k", "headers": "n: v\r\nm: w"}
    answer = await browser.post(f"{PAGE}/publish", fields)
    assert "Published with the id" in answer.text
    await browser.post(f"{PAGE}/publish", {"payload": "00 ff", "kind": "hex"})
    await browser.post(f"{PAGE}/publish", {"kind": "none", "key": "gone"})
    for bad in ({"payload": "xyz", "kind": "hex"}, {"payload": "x", "headers": "no colon"}):
        assert (await browser.post(f"{PAGE}/publish", bad)).status_code == 400
    first, second, third = await messages_of(open_site)
    assert (first.payload, first.key, dict(first.headers)) == (
        b"a\nb",
        b"k",
        {"n": b"v", "m": b"w"},
    )
    assert (second.payload, second.key) == (b"\x00\xff", None)
    assert (third.is_tombstone, third.key) == (True, b"gone")


async def test_who_may_not_consume_sees_no_message(guarded_site: Site) -> None:
    await guarded_site.create()
    doors = guarded_site.doors
    assert doors is not None
    message_id = await publish(guarded_site, b"secret")
    await doors.allow("publisher", [Action.PUBLISH], NS, "t")
    await doors.allow("reader", [Action.CONSUME], NS, "t")
    publisher = await guarded_site.as_somebody("publisher")
    assert f"{NS}/topics/t/messages" not in await publisher.get(PAGE)
    for path in (
        "messages",
        f"messages/{message_id.hex()}",
        f"messages/{message_id.hex()}/payload",
    ):
        answer = await publisher.ask(f"{PAGE}/{path}")
        assert answer.status_code == 403
        assert "secret" not in answer.text
    reader = await guarded_site.as_somebody("reader")
    page = await reader.get(f"{PAGE}/messages")
    assert "secret" in page
    assert "Publish a message" not in page
    shown = await reader.get(f"{PAGE}/messages/{message_id.hex()}")
    assert "committed" in shown
    assert "It belongs to no transaction" not in shown  # only operators of the server see it
    await reader.get("topics")
    assert (await reader.post(f"{PAGE}/publish", {"payload": "x"})).status_code == 403
    assert len(await messages_of(guarded_site)) == 1
