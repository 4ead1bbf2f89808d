"""The right password is accepted; wrong guesses reveal nothing, and are limited."""

import asyncio
import base64
import logging
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import argon2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.manual_clock import ManualClock
from tests.waiting import in_time, turns
from tms.core.errors import NotAuthenticated, RateExceeded
from tms.security.credentials import Scheme, Verified
from tms.security.passwords import (
    FAILURES_PER_MINUTE,
    REMEMBERED_MS,
    STRANGERS_AT_ONCE,
    WAITING_MAX,
    PasswordsUnreadable,
    PasswordVerifier,
    hash_password,
    names_of,
)
from tms.security.rules import Identity

pytestmark = pytest.mark.anyio
NOW_MS = 1_700_000_000_000
QUICK = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
"""Fast hashes: tests do not need hashes that resist guessing."""
HASH = QUICK.hash("right")
FILE = f"# of tests\n\nann:{HASH}:g,h\r\n  bob:{QUICK.hash('pass:wörd')}\n"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "passwords"
    file.write_text(FILE)
    return file


@pytest.fixture
async def verifier(file: Path, clock: ManualClock) -> AsyncIterator[PasswordVerifier]:
    verifier = PasswordVerifier(str(file), clock)
    yield verifier
    await verifier.close()


def write(file: Path, text: str) -> None:
    file.write_text(text)


def basic(name: str, password: str) -> str:
    return base64.b64encode(f"{name}:{password}".encode()).decode()


async def refusal(verifier: PasswordVerifier, value: str, address: str = "10.0.0.1") -> str:
    with pytest.raises(NotAuthenticated) as caught:
        await verifier.verify(value, address)
    assert caught.value.problem.code == "credentials_invalid"
    return str(caught.value.detail["reason"])


async def test_who_has_the_password_is_let_in_for_a_while(verifier: PasswordVerifier) -> None:
    assert await verifier.verify(basic("ann", "right"), "10.0.0.1") == Verified(
        Identity("ann", frozenset("gh")), None, Scheme.BASIC, REMEMBERED_MS
    )
    found = await verifier.verify(basic("bob", "pass:wörd"), "::1")
    assert found.identity == Identity("bob")


async def test_whoever_guesses_gets_the_same_answer_for_each_name(
    verifier: PasswordVerifier,
) -> None:
    told = {
        await refusal(verifier, basic(name, password))
        for name, password in [
            ("ann", "wrong"),
            ("ann", ""),
            ("eve", "right"),
            ("eve", "wrong"),
            ("", "right"),
            ("bob", "right"),
            ("ann:right", ""),
        ]
    }
    assert told == {"the name or the password is wrong"}


@pytest.mark.parametrize(
    "value",
    [
        *("YTp", "YQ", "", basic("ann", "x" * 257)),
        base64.b64encode(b"name").decode(),
        base64.b64encode(b"\xff:a").decode(),
    ],
)
async def test_what_is_not_a_name_and_password_is_refused(
    verifier: PasswordVerifier, value: str
) -> None:
    for _ in range(2 * FAILURES_PER_MINUTE):
        assert await refusal(verifier, value)


async def test_a_file_without_names_lets_nobody_in(file: Path, clock: ManualClock) -> None:
    write(file, "# nobody\n")
    verifier = PasswordVerifier(str(file), clock)
    assert await refusal(verifier, basic("ann", "right"))
    await verifier.close()


async def test_what_was_right_is_remembered_for_a_minute(
    verifier: PasswordVerifier, clock: ManualClock
) -> None:
    value = basic("ann", "right")
    first = await verifier.verify(value, "10.0.0.1")
    clock.advance(REMEMBERED_MS - 1)
    assert await verifier.verify(value, "10.0.0.1") is first
    clock.advance(1)
    again = await verifier.verify(value, "10.0.0.1")
    assert again.steady_ends_ms == 2 * REMEMBERED_MS
    assert value not in str(dict(verifier._remembered))


async def test_a_changed_file_holds_at_once_unless_it_is_wrong(
    verifier: PasswordVerifier, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert await verifier.verify(basic("ann", "right"), "10.0.0.1")
    write(file, FILE + f"carl:{HASH}\n")
    assert await verifier.verify(basic("carl", "right"), "10.0.0.1")
    with caplog.at_level(logging.WARNING, "tms.security.passwords"):
        write(file, f"carl:{HASH}\ncarl:{HASH}\n")
        assert await verifier.verify(basic("ann", "right"), "10.0.0.1")
        assert await verifier.verify(basic("ann", "right"), "10.0.0.1")
        assert len(caplog.records) == 1
        assert "line 2" in caplog.text
        os.remove(file)  # noqa: PTH107  # paths are not for async functions
        assert await verifier.verify(basic("ann", "right"), "10.0.0.1")
    assert HASH not in caplog.text
    write(file, f"carl:{HASH}\n")
    assert "wrong" in await refusal(verifier, basic("ann", "right"))


async def test_an_address_guesses_ten_times_a_minute(
    verifier: PasswordVerifier, clock: ManualClock
) -> None:
    remembered = basic("bob", "pass:wörd")
    assert await verifier.verify(remembered, "10.0.0.1")
    for n in range(FAILURES_PER_MINUTE):
        assert "wrong" in await refusal(verifier, basic("ann", f"{n}"))
    with pytest.raises(RateExceeded) as caught:
        await verifier.verify(basic("ann", "right"), "10.0.0.1")
    assert caught.value.problem.code == "principal_rate_exceeded"
    assert caught.value.detail["retry_after_s"] == 6
    assert caught.value.detail["setting"] == "auth_passwords"
    assert await verifier.verify(remembered, "10.0.0.1"), "who is in stays in"
    assert await verifier.verify(basic("ann", "right"), "10.0.0.2")
    clock.advance(6_000)
    assert "wrong" in await refusal(verifier, basic("ann", "x"))


async def test_addresses_of_one_network_count_as_one(verifier: PasswordVerifier) -> None:
    for n in range(FAILURES_PER_MINUTE):
        assert await refusal(verifier, basic("ann", f"{n}"), f"2001:db8::{n:x}")
    with pytest.raises(RateExceeded):
        await verifier.verify(basic("ann", "x"), "2001:db8::ffff")
    assert await refusal(verifier, basic("ann", "x"), "2001:db8:0:1::1")
    for n in range(FAILURES_PER_MINUTE):
        assert await refusal(verifier, basic("ann", f"{n}"), "::ffff:10.0.0.9")
    with pytest.raises(RateExceeded):
        await verifier.verify(basic("ann", "x"), "10.0.0.9")
    assert await refusal(verifier, basic("ann", "x"), "unix:")


async def test_right_passwords_do_not_count_as_guesses(
    verifier: PasswordVerifier, clock: ManualClock
) -> None:
    for _ in range(3 * FAILURES_PER_MINUTE):
        assert await verifier.verify(basic("ann", "right"), "10.0.0.1")
        verifier._remembered.clear()


async def test_few_wait_and_others_come_later(verifier: PasswordVerifier) -> None:
    at_once = STRANGERS_AT_ONCE + WAITING_MAX
    found = await asyncio.gather(
        *(verifier.verify(basic("ann", f"{n}"), f"10.0.1.{n}") for n in range(at_once + 3)),
        return_exceptions=True,
    )
    assert [type(each) for each in found] == [NotAuthenticated] * at_once + [RateExceeded] * 3
    assert await verifier.verify(basic("ann", "right"), "10.0.0.1")


async def test_who_was_right_lately_is_never_behind_strangers(
    verifier: PasswordVerifier, file: Path, clock: ManualClock
) -> None:
    names = [f"user{n}" for n in range(40)]
    write(file, "".join(f"{name}:{HASH}\n" for name in names))
    for name in names:
        assert await verifier.verify(basic(name, "right"), f"10.0.0.{name[4:]}")
    clock.advance(REMEMBERED_MS)
    guesses = [
        asyncio.create_task(verifier.verify(basic(f"user{n % 40}", f"{n}"), f"10.1.{n}.1"))
        for n in range(100)
    ]
    for n in range(FAILURES_PER_MINUTE):  # from the address of one of them
        guesses.append(asyncio.create_task(verifier.verify(basic("user1", f"{n}"), "10.0.0.1")))
        await turns()

    found = await asyncio.gather(
        *(verifier.verify(basic(name, "right"), "10.0.0.1") for name in names)
    )

    assert [each.identity.principal for each in found] == names
    refused = await asyncio.gather(*guesses, return_exceptions=True)
    assert {type(each) for each in refused} == {NotAuthenticated, RateExceeded}


async def test_the_thread_of_those_who_were_right_is_free_of_strangers(
    verifier: PasswordVerifier, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await verifier.verify(basic("ann", "right"), "10.0.0.1")
    clock.advance(REMEMBERED_MS)
    may_end = threading.Event()

    def is_right(hashed: str, password: bytes) -> bool:
        return password == b"right" or not may_end.wait()

    monkeypatch.setattr("tms.security.passwords._is_right", is_right)
    guesses = [
        asyncio.create_task(verifier.verify(basic("ann", f"{n}"), f"10.1.{n}.1"))
        for n in range(STRANGERS_AT_ONCE + WAITING_MAX)
    ]
    try:
        async with in_time():
            assert await verifier.verify(basic("ann", "right"), "10.0.0.2")
    finally:
        may_end.set()
    await asyncio.gather(*guesses, return_exceptions=True)


async def test_a_password_that_holds_no_more_is_a_strangers(
    verifier: PasswordVerifier, file: Path
) -> None:
    assert await verifier.verify(basic("ann", "right"), "10.0.0.1")
    write(file, f"ann:{QUICK.hash('another')}\n")
    assert await refusal(verifier, basic("ann", "right"))
    assert not verifier._right_lately
    for n in range(FAILURES_PER_MINUTE):
        assert await refusal(verifier, basic("ann", f"{n}"))
    with pytest.raises(RateExceeded):
        await verifier.verify(basic("ann", "right"), "10.0.0.1")


async def test_those_who_say_the_same_at_once_are_verified_once(
    verifier: PasswordVerifier,
) -> None:
    value = basic("ann", "right")
    first, *others = [asyncio.create_task(verifier.verify(value, "10.0.0.1")) for _ in range(50)]
    await turns()
    first.cancel()
    found = await asyncio.gather(*others)
    assert all(each is found[0] for each in found)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("ann", "NAME:HASH"),
        (f"ann:{HASH}:g:h", "NAME:HASH"),
        ("ann:right", "the hash is not valid"),
        ("ann:", "the hash is not valid"),
        (f"ann:{HASH.replace('argon2id', 'argon2i')}", "not an argon2id hash"),
        (f"ann:{HASH.replace('m=8', 'm=4000000')}", "takes over 1048576 KiB"),
        (f":{HASH}", "a principal has a name"),
        (f"anonymous:{HASH}", "cannot be principals"),
        (f"ann:{HASH}:", "a group has a name"),
        (f"ann:{HASH}:g,", "a group has a name"),
        ("ann:\xe9", "the hash is not valid"),
    ],
    ids=range(11),  # hashes are random, and all test processes need the same ids
)
def test_an_error_names_the_line_and_not_the_hash(line: str, reason: str) -> None:
    with pytest.raises(PasswordsUnreadable, match=f"^line 3: .*{reason}") as caught:
        names_of(f"# one\ncarl:{HASH}\n{line}\n".encode())
    assert "right" not in str(caught.value)
    assert HASH not in str(caught.value)


@given(st.binary(max_size=200))
def test_any_file_is_read_or_refused(data: bytes) -> None:
    try:
        assert all(known.identity.principal == name for name, known in names_of(data).items())
    except PasswordsUnreadable:
        return


def test_a_password_is_hashed_again_each_time_and_is_not_any_text() -> None:
    hashed = hash_password("right")
    assert hashed != hash_password("right")
    assert argon2.PasswordHasher().verify(hashed, "right")
    assert names_of(f"ann:{hashed}".encode())["ann"].hash == hashed
    assert hashed not in repr(names_of(f"ann:{hashed}".encode()))
    for wrong in ("", "x" * 257, "é" * 129):
        with pytest.raises(ValueError, match="1 to 256 bytes"):
            hash_password(wrong)
