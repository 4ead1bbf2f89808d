"""Servers reached through proxies: which proxy the environment names, and what the proxy sees."""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.api.cluster.asking import anyio_backend, body_of
from tests.api.cluster.peers import OK, Talk, peer_that
from tests.servers.authority import Authority
from tms.core.runtime.tls import TlsFiles, client_context, server_context
from tms.outgoing.proxies import proxy_of
from tms.outgoing.upstream import NotSent, Upstream
from tms.outgoing.url import InvalidUrl, parse_url

__all__ = ["anyio_backend"]

P = "http://proxy:1"
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUEST_METHOD")


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize(
    ("url", "variables", "named"),
    [
        ("http://h", {}, None),
        ("http://h", {"HTTP_PROXY": P}, P),
        ("http://h", {"http_proxy": "proxy:1"}, P),
        ("http://h", {"http_proxy": "", "HTTP_PROXY": P}, None),
        ("http://h", {"HTTPS_PROXY": P}, None),
        ("https://h", {"HTTPS_PROXY": P}, P),
        ("https://h", {"ALL_PROXY": P, "HTTP_PROXY": "http://other"}, P),
        ("http://h", {"HTTP_PROXY": P, "REQUEST_METHOD": "GET"}, None),
        ("http://h", {"http_proxy": P, "REQUEST_METHOD": "GET"}, P),
        ("https://h", {"HTTPS_PROXY": "https://u:p@proxy"}, "https://u:p@proxy"),
    ],
)
def test_the_environment_names_it(
    monkeypatch: pytest.MonkeyPatch, url: str, variables: dict[str, str], named: str | None
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert proxy_of(parse_url(url)) == (named and parse_url(named))


@pytest.mark.parametrize(
    ("host", "entries", "is_excluded"),
    [
        ("a.example", "*", True),
        ("a.example", "b.example", False),
        ("a.example", "b.example, A.example", True),
        ("x.a.example", "a.example", True),
        ("xa.example", "a.example", False),
        ("a.example", ".a.example", False),
        ("x.a.example", ".a.example", True),
        ("a.example:8", "a.example:8", True),
        ("a.example:8", "a.example:9", False),
        ("a.example", "a.example:80", True),
        ("a.example", "http://a.example", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "0.0.1", False),
        ("[fe80::1]", "fe80::1", True),
        ("[fe80::1]:8", "[fe80::1]:8", True),
        ("[fe80::1]", "fe80::2", False),
        ("a.example", " , ,", False),
    ],
)
def test_hosts_are_excluded(
    monkeypatch: pytest.MonkeyPatch, host: str, entries: str, *, is_excluded: bool
) -> None:
    monkeypatch.setenv("ALL_PROXY", P)
    monkeypatch.setenv("no_proxy", entries)

    assert (proxy_of(parse_url(f"http://{host}")) is None) == is_excluded


@pytest.mark.parametrize("proxy", ["socks5://h", "http://", "http://h:x", "nonsense"])
def test_one_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    if proxy == "nonsense":
        assert str(proxy_of(parse_url("http://h"))) == "http://nonsense"
        return
    with pytest.raises(InvalidUrl, match="cannot use the proxy that the environment names"):
        proxy_of(parse_url("http://h"))


@pytest.mark.anyio
async def test_without_tls_it_is_asked_for_the_whole_url() -> None:
    heads = []

    async def record(talk: Talk) -> None:
        while True:
            heads.append(await talk.request())
            await talk.say(OK)

    async with peer_that(record) as proxy:
        by = parse_url(proxy.url.replace("http://", "http://u:p%40@"))
        way = Upstream("http://tms.example:1/x", proxy=by)
        for _ in range(2):
            answer = await way.send("GET", b"/x/y?z", b"a: 1\r\n", None, is_counted=True)
            assert await body_of(answer) == b"ok"
        way.close()

    asked = (
        b"GET http://tms.example:1/x/y?z HTTP/1.1\r\nhost: tms.example:1\r\n"
        b"proxy-authorization: Basic dTpwQA==\r\na: 1\r\n\r\n"
    )
    assert heads == [asked] * 2
    assert len(proxy.talks) == 1


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


@contextmanager
def trusting(tls: ssl.SSLContext) -> Iterator[None]:
    """Make this machine trust the authorities of `tls`, which it uses to verify proxies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", lambda: tls)
        yield


@pytest.mark.anyio
@pytest.mark.parametrize("is_secured", [False, True])
async def test_over_tls_it_sees_the_host_alone(tmp_path: Path, *, is_secured: bool) -> None:
    authority = Authority(tmp_path / "ours")
    files = TlsFiles(*authority.issue("server").pair)
    tls = client_context(str(authority.ca))
    asked = []

    async def tunnel(talk: Talk) -> None:
        asked.append(await talk.head())
        port = int(asked[-1].split()[1].rpartition(b":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await talk.say(b"HTTP/1.1 200 Connection established\r\nx: y\r\n\r\n")
        try:
            await asyncio.gather(pump(talk.reader, writer), pump(reader, talk.writer))
        finally:
            writer.close()

    async def answer(talk: Talk) -> None:
        while True:
            await talk.request()
            await talk.say(OK)

    proxy_tls = server_context(files) if is_secured else None
    async with (
        peer_that(answer, server_context(files)) as server,
        peer_that(tunnel, proxy_tls) as proxy,
    ):
        by = parse_url(proxy.url.replace("://", "://u:p@"))
        way = Upstream(server.url, tls, proxy=by)
        with trusting(tls):
            for _ in range(2):
                got = await way.send("POST", b"/", b"", b"x" * 100_000, is_counted=False)
                assert await body_of(got) == b"ok"
        way.close()

    place = server.url.removeprefix("https://").encode()
    lines = [b"CONNECT " + place + b" HTTP/1.1", b"host: " + place]
    assert [head.split(b"\r\n") for head in asked] == [[*lines, b"proxy-authorization: Basic dTpw"]]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n", "refuses: 407 Who are you"),
        (b"HTTP/1.1 200 OK\r\n\r\nmore", "more than its answer"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "refuses: it does not speak HTTP"),
        (b"", "refuses"),
        (b"HTTP/1.1 200 " + b"x" * 100_000, "more than its answer"),
    ],
)
async def test_one_that_refuses_is_reported_and_nothing_was_sent(said: bytes, reason: str) -> None:
    async def refuse(talk: Talk) -> None:
        await talk.head()
        await talk.say(said)

    async with peer_that(refuse) as proxy:
        way = Upstream("https://tms.example", proxy=parse_url(proxy.url))
        with pytest.raises(NotSent, match=reason):
            await way.send("GET", b"/", b"", None, is_counted=True)
        way.close()
