"""Keys come from a file or over TLS, are renewed as they change, and kept if that fails."""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa

from tests.manual_clock import ManualClock
from tests.security.web_keys import ALL, EC, ED, RSA, KeyServer, jwk, key_set
from tests.waiting import in_time, until
from tms.security.json_web_keys import KEYS_MAX, KeysUnreadable, WebKeys, keys_of

pytestmark = pytest.mark.anyio
LOGGER = "tms.security.json_web_keys"


@pytest.fixture
async def server(anyio_backend: str, tmp_path: Path) -> AsyncIterator[KeyServer]:
    async with KeyServer(tmp_path).serving() as server:
        yield server


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


@asynccontextmanager
async def opened(*given: Any, **more: Any) -> AsyncIterator[WebKeys]:
    keys = WebKeys(*given, **more)
    try:
        await keys.open()
        yield keys
    finally:
        await keys.close()


@pytest.fixture
async def keys(server: KeyServer, clock: ManualClock) -> AsyncIterator[WebKeys]:
    async with opened(server.url, clock, server.ca_file) as keys:
        yield keys


def test_a_key_is_for_what_it_is() -> None:
    assert {key.id: key.algorithm for key in keys_of(ALL)} == {
        "RS256": "RS256",
        "ES256": "ES256",
        "EdDSA": "EdDSA",
    }


def unusable() -> dict[str, dict[str, Any]]:
    small = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    right = jwk("RS256", RSA, "x")
    return {
        "symmetric": {"kty": "oct", "k": "c2VjcmV0", "kid": "x"},
        "to encrypt": {**right, "use": "enc"},
        "to sign": {**right, "key_ops": ["sign"]},
        "for anything": {**right, "key_ops": 5},
        "short": jwk("RS256", small, "x"),
        "of another curve": jwk("ES384", ec.generate_private_key(ec.SECP384R1()), "x"),
        "Ed448": jwk("EdDSA", ed448.Ed448PrivateKey.generate(), "x"),
        "of another algorithm": {**right, "alg": "PS256"},
        "symmetric in name": {**right, "alg": "HS256"},
        "nameless": {**right, "kid": 5},
        "broken": {**right, "n": 5},
        "incomplete": {"kty": "EC", "kid": "x", "crv": "P-256"},
        "of no kind": {"kid": "x"},
    }


@pytest.mark.parametrize("what", list(unusable()))
def test_a_key_that_is_for_nothing_is_passed_over(what: str) -> None:
    data = key_set(unusable()[what], jwk("ES256", EC, "good"))
    assert [key.id for key in keys_of(data)] == ["good"]
    with pytest.raises(KeysUnreadable, match="no key for"):
        keys_of(key_set(unusable()[what]))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "keys"),
        (b'{"keys": {}}', "keys"),
        (b'{"keys": [5]}', "no key for"),
        (b" " * 1_048_577, "over 1048576 bytes"),
        (json.dumps({"keys": [{}] * (KEYS_MAX + 1)}).encode(), "over 100 keys"),
        (key_set(jwk("EdDSA", ED, "x"), jwk("ES256", EC, "x")), "two keys have the same id"),
    ],
)
def test_what_is_not_a_set_of_keys_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(KeysUnreadable, match=reason):
        keys_of(data)


def test_private_parts_are_not_held() -> None:
    private = json.loads(jwt.get_algorithm_by_name("ES256").to_jwk(EC))
    assert "d" in private
    private.pop("key_ops", None)
    (key,) = keys_of(key_set({**private, "kid": "x"}))
    assert key.key == EC.public_key()


async def test_a_file_is_read_again_if_it_was_changed(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(key_set(jwk("ES256", EC, "a")))
    async with opened(str(file), clock) as keys:
        assert await keys.key("a")
        assert await keys.key("b") is None

        file.write_bytes(key_set(jwk("ES256", EC, "b")))
        os.utime(file, ns=(1, 1))
        assert await keys.key("b")
        assert await keys.key("a") is None

        with caplog.at_level(logging.WARNING, LOGGER):
            file.write_bytes(b"nothing")
            assert await keys.key("b")
            file.unlink()
            assert await keys.key("b")
        assert [record.getMessage().count("no JSON") for record in caplog.records] == [1]


async def test_a_file_that_cannot_be_read_keeps_a_server_from_starting(
    tmp_path: Path, clock: ManualClock
) -> None:
    with pytest.raises(FileNotFoundError):
        await WebKeys(str(tmp_path / "none"), clock).open()
    (tmp_path / "empty").touch()
    with pytest.raises(KeysUnreadable):
        await WebKeys(str(tmp_path / "empty"), clock).open()
    with pytest.raises(ValueError, match="https://"):
        WebKeys("http://issuer/keys", clock)


async def test_an_unknown_key_is_asked_for_but_not_again_and_again(
    server: KeyServer, clock: ManualClock, keys: WebKeys
) -> None:
    assert server.asked == 1
    server.answer = key_set(jwk("ES256", EC, "new"))
    assert await keys.key("new") is None
    clock.advance(29_999)
    assert await keys.key("new") is None
    assert server.asked == 1
    clock.advance(1)
    found = await asyncio.gather(*(keys.key(name) for name in ("new", "other", "new")))
    assert [key.id if key else None for key in found] == ["new", None, "new"]
    assert server.asked == 2
    assert await keys.key("other") is None
    assert server.asked == 2


async def test_who_stops_waiting_stops_nothing_for_others(
    server: KeyServer, clock: ManualClock, keys: WebKeys
) -> None:
    server.answer = key_set(jwk("ES256", EC, "new"))
    server.may_answer.clear()
    server.was_asked.clear()
    clock.advance(30_000)
    one, other = (asyncio.create_task(keys.key("new")) for _ in range(2))
    async with in_time():
        await server.was_asked.wait()
    one.cancel()
    server.may_answer.set()
    found = await other
    assert found is not None
    assert found.id == "new"


async def test_keys_are_kept_if_others_cannot_be_had(
    server: KeyServer, clock: ManualClock, keys: WebKeys, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, LOGGER):
        for status, answer in (("500 X", ALL), ("200 OK", b"?"), ("200 OK", b" " * 2_000_000)):
            server.status, server.answer = status, answer
            clock.advance(30_000)
            assert await keys.key("none") is None
            assert await keys.key("ES256")
    assert server.asked == 4
    assert len(caplog.records) == 1
    server.status, server.answer = "200 OK", key_set(jwk("ES256", EC, "none"))
    clock.advance(30_000)
    assert await keys.key("none")


async def test_a_server_starts_without_keys_and_asks_for_them_later(
    server: KeyServer, clock: ManualClock
) -> None:
    server.status = "503 Later"
    async with opened(server.url, clock, server.ca_file) as keys:
        server.status, server.answer = "200 OK", key_set(jwk("ES256", EC, None))
        clock.advance(30_000)
        assert await keys.key(None)


async def test_redirections_lead_to_what_is_encrypted_only(
    server: KeyServer, clock: ManualClock
) -> None:
    server.status = "302 Found"
    for url in ("http://127.0.0.1:1/", server.url):  # the second one redirects for ever
        server.location = f"location: {url}\r\n"
        async with opened(server.url, clock, server.ca_file) as keys:
            assert await keys.key("ES256") is None
    assert server.asked == 1 + 4


async def test_a_server_that_is_not_trusted_is_not_believed(
    server: KeyServer, clock: ManualClock
) -> None:
    async with opened(server.url, clock) as keys:
        assert await keys.key("ES256") is None
        assert server.asked == 0


async def test_an_url_is_asked_from_time_to_time(server: KeyServer, clock: ManualClock) -> None:
    async with opened(server.url, clock, server.ca_file, every_s=0.001) as keys:
        server.answer = key_set(jwk("ES256", EC, "new"))
        await until(lambda: server.asked > 3)
        assert await keys.key("new")
        # Python 3.11's asyncio leaks a transport that is cancelled during its handshake: end after
        # it.
        server.may_answer.clear()
        asked = server.asked
        await until(lambda: server.asked > asked)
    server.may_answer.set()
