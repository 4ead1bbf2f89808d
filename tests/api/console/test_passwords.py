"""Signing in by password: how long it lasts, and what strangers can do to others by guessing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

import argon2
import httpx
import pytest

from tests.api.console.site import Site, site
from tests.api.doors import ROOT, Doors
from tests.manual_clock import ManualClock
from tms.security.passwords import FAILURES_PER_MINUTE, PasswordVerifier

pytestmark = pytest.mark.anyio
HOUR_MS = 3_600_000
_hasher = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


@asynccontextmanager
async def site_with_passwords(folder: Path) -> AsyncIterator[tuple[Site, ManualClock]]:
    file, clock = folder / "passwords", ManualClock(1_700_000_000_000)
    lines = [f"{name}:{_hasher.hash(f'of {name}')}\n" for name in ("ann", "bob")]
    file.write_text("".join(lines))
    verifier = PasswordVerifier(str(file), clock)
    doors = Doors(clock, verifier.verify)
    await doors.open()
    try:
        async with site(doors, clock=clock) as opened:
            yield opened, clock
    finally:
        await verifier.close()
        await doors.grants.close()


async def status_of(opened: Site, last: int, name: str, password: str, *, rest: bool) -> int:
    """Return the status of a sign-in from an address of this machine; 200 is signed in."""
    transport = httpx.AsyncHTTPTransport(local_address=f"127.0.0.{last}")
    async with httpx.AsyncClient(base_url=opened.url, transport=transport) as http:
        if rest:
            answer = await http.get("/v1/auth/whoami", auth=(name, password))
            return answer.status_code
        data = {"name": name, "password": password}
        answer = await http.post("/console/sign-in", data=data)
        is_refused = answer.status_code == HTTPStatus.OK  # the form is shown again
        return HTTPStatus.UNAUTHORIZED if is_refused else answer.status_code


async def test_who_signs_in_stays_for_twelve_hours(tmp_path: Path) -> None:
    async with site_with_passwords(tmp_path) as (opened, clock):
        browser = opened.browser
        await browser.http.post("/console/sign-in", data={"name": "ann", "password": "of ann"})
        for _ in range(11):
            assert (await browser.ask("topics")).url.path == "/console/topics"
            clock.advance(HOUR_MS)
        assert (await browser.ask("topics")).url.path == "/console/topics"
        clock.advance(HOUR_MS)
        assert (await browser.ask("topics")).url.path == "/console/sign-in"


async def test_a_changed_password_ends_the_session(tmp_path: Path) -> None:
    async with site_with_passwords(tmp_path) as (opened, clock):
        browser = opened.browser
        await browser.http.post("/console/sign-in", data={"name": "ann", "password": "of ann"})
        (tmp_path / "passwords").write_text(f"ann:{_hasher.hash('another')}\n")
        clock.advance(HOUR_MS)
        assert (await browser.ask("topics")).url.path == "/console/sign-in"


@pytest.mark.parametrize("rest", [False, True], ids=["console", "REST"])
async def test_strangers_lock_no_name_out(tmp_path: Path, *, rest: bool) -> None:
    """Guesses are counted by address, across REST and the console, and never by name."""
    async with site_with_passwords(tmp_path) as (opened, _):
        for attempt in range(FAILURES_PER_MINUTE):
            refused = await status_of(opened, 2, "ann", f"guess {attempt}", rest=rest)
            assert refused == HTTPStatus.UNAUTHORIZED
        for there in (False, True):
            limited = await status_of(opened, 2, "bob", "a guess", rest=there)
            assert limited == HTTPStatus.TOO_MANY_REQUESTS
            signed_in = await status_of(opened, 3, "ann", "of ann", rest=there)
            assert signed_in in (HTTPStatus.OK, HTTPStatus.SEE_OTHER)
        # A name whose right password was used recently can still sign in from the guesser's
        # address.
        again = await status_of(opened, 2, "ann", "of ann", rest=rest)
        assert again in (HTTPStatus.OK, HTTPStatus.SEE_OTHER)


async def test_wrong_tokens_lock_nobody_out(guarded_site: Site) -> None:
    doors, browser = guarded_site.doors, guarded_site.browser
    assert doors is not None
    for _ in range(FAILURES_PER_MINUTE + 1):
        answer = await browser.sign_in("tms_abcdefghijkl_" + "x" * 43)
        assert 'role="alert"' in answer.text
    assert (await browser.sign_in(await doors.token(ROOT))).url.path == "/console"


async def test_strangers_do_not_see_the_version(guarded_site: Site) -> None:
    shown = "<footer>TMS 0."
    for path in ("sign-in", "nowhere", "topics"):
        assert shown not in (await guarded_site.browser.ask(path)).text
    assert shown in await (await guarded_site.as_somebody(ROOT)).get("topics")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"x-forwarded-for": "10.0.0.1"}, 403),
        ({"x-forwarded-for": "127.0.0.1, 10.0.0.1"}, 403),
        ({"x-forwarded-for": "127.0.0.1"}, 200),
        ({"forwarded": "for=127.0.0.1", "x-forwarded-for": "10.0.0.1"}, 403),
        ({"forwarded": 'for="[2001:db8::1]:80"'}, 403),
        ({"forwarded": "nonsense"}, 403),
    ],
)
async def test_who_is_behind_a_proxy_of_this_machine_is_elsewhere(
    headers: dict[str, str], status: int
) -> None:
    async with site(proxies="127.0.0.1, ::1") as opened:
        answer = await opened.browser.http.get("/console/topics", headers=headers)
        assert answer.status_code == status
