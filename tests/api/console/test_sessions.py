"""Sessions of the console: how they start, what they allow, and how they end."""

from http import HTTPStatus

import httpx
import pytest

from api.console.browser_sessions import LIFE_S, OWN_MAX, BrowserSessions
from tests.api.console.site import NS, PAGE, Site
from tests.api.doors import ROOT
from tests.api.rest import NOW_MS
from tests.manual_clock import ManualClock
from tests.waiting import until
from tms.security.resources import Action
from tms.security.sessions import NEVER_MS

pytestmark = pytest.mark.anyio


async def test_a_page_leads_to_signing_in_and_back(guarded_site: Site) -> None:
    browser, doors = guarded_site.browser, guarded_site.doors
    assert doors is not None
    asked = await browser.ask("topics", namespace=NS)
    assert asked.url.path == "/console/sign-in"
    assert asked.url.params["back"] == f"/topics?namespace={NS}"
    token = await doors.token(ROOT)
    data = {"token": token, "back": asked.url.params["back"]}
    answer = await browser.http.post("/console/sign-in", data=data)
    assert answer.url.path == "/console/topics"
    assert "Topics of ns" in answer.text


@pytest.mark.parametrize("back", ["//evil.example/", "https://evil.example/", "/\r\nx: y", "\\\\e"])
async def test_signing_in_leads_nowhere_else(guarded_site: Site, back: str) -> None:
    doors = guarded_site.doors
    assert doors is not None
    browser = guarded_site.browser
    browser.http.follow_redirects = False
    data = {"token": await doors.token(ROOT), "back": back}
    answer = await browser.http.post("/console/sign-in", data=data)
    assert answer.status_code == HTTPStatus.SEE_OTHER
    assert answer.headers["location"] == "../console"


@pytest.mark.parametrize("step_ms", [0, -86_400_000, 86_400_000])
def test_a_session_lasts_as_long_whatever_the_clock_is_set_to(step_ms: int) -> None:
    clock = ManualClock(NOW_MS)
    sessions = BrowserSessions(clock)
    session_id = sessions.begin(b"x", "ann", NEVER_MS)
    clock.step(step_ms)
    clock.advance(1000 * LIFE_S - 1)
    assert sessions.find(session_id) is not None
    clock.advance(1)
    assert sessions.find(session_id) is None


async def test_the_cookie_is_a_session_of_the_console_alone(guarded_site: Site) -> None:
    doors = guarded_site.doors
    assert doors is not None
    browser = guarded_site.browser
    browser.http.follow_redirects = False
    token = await doors.token(ROOT)
    answer = await browser.http.post("/console/sign-in", data={"token": token})
    [cookie] = answer.headers.get_list("set-cookie")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert token not in cookie
    [kept] = browser.http.cookies.jar
    assert kept.path == "/console"
    named = {"cookie": f"{kept.name}={kept.value}"}
    async with httpx.AsyncClient(base_url=guarded_site.url, trust_env=False, verify=False) as http:
        assert (await http.get("/console/topics", headers=named)).status_code == HTTPStatus.OK
        for path in ("/v1/namespaces/ns/topics", "/metrics", "/v1/cluster"):
            refused = await http.get(path, headers=named)
            assert refused.status_code == HTTPStatus.UNAUTHORIZED, path


async def test_a_session_that_somebody_else_put_there_is_worth_nothing(guarded_site: Site) -> None:
    doors = guarded_site.doors
    assert doors is not None
    attacker, victim = [guarded_site.new_browser() for _ in range(2)]
    await attacker.sign_in(await doors.token("attacker"))
    [planted] = attacker.http.cookies.jar
    assert planted.value is not None
    victim.http.cookies.set(planted.name, planted.value, "127.0.0.1", "/console")
    await victim.sign_in(await doors.token(ROOT))
    [own] = victim.http.cookies.jar
    assert own.value != planted.value
    assert "root" in await victim.get("access")
    assert (await attacker.ask("topics")).url.path == "/console/sign-in"


async def test_signing_out_ends_the_session(guarded_site: Site) -> None:
    browser = await guarded_site.as_somebody(ROOT)
    [kept] = browser.http.cookies.jar
    named = {"cookie": f"{kept.name}={kept.value}"}
    await browser.http.post("/console/sign-out")
    assert not list(browser.http.cookies.jar)
    again = await browser.http.get("/console/topics", headers=named)
    assert again.url.path == "/console/sign-in"


async def test_who_signs_in_too_often_loses_an_own_session_and_nobody_else_does(
    guarded_site: Site,
) -> None:
    other = await guarded_site.as_somebody(ROOT)
    first, *more = [await guarded_site.as_somebody("busy") for _ in range(OWN_MAX + 1)]
    assert (await first.ask("topics")).url.path == "/console/sign-in"
    for kept in (other, *more):
        assert (await kept.ask("topics")).url.path == "/console/topics"


async def test_a_revoked_token_ends_beside_an_open_page(guarded_site: Site) -> None:
    await guarded_site.create()
    doors = guarded_site.doors
    assert doors is not None
    await doors.allow("reader", [Action.CONSUME], NS, "t")
    browser = await guarded_site.as_somebody("reader")
    await browser.get(f"{PAGE}/messages")
    live = {"hx-request": "true"}
    browser.http.follow_redirects = False
    url = f"/console/{PAGE}/messages"
    assert (await browser.http.get(url, headers=live)).status_code == HTTPStatus.OK
    await doors.grants.remove_token(await doors.id_of("reader"))

    async def refused() -> httpx.Response | None:
        answer = await browser.http.get(url, headers=live)
        return None if answer.status_code == HTTPStatus.OK else answer

    answer = await until(refused)
    assert answer is not None
    assert answer.status_code == HTTPStatus.UNAUTHORIZED
    assert answer.headers["hx-refresh"] == "true"
    assert answer.content == b""
    again = await browser.http.get(url)
    assert again.status_code == HTTPStatus.SEE_OTHER
    assert "sign-in" in again.headers["location"]


async def test_a_rule_that_is_taken_away_ends_beside_an_open_page(guarded_site: Site) -> None:
    await guarded_site.create()
    doors = guarded_site.doors
    assert doors is not None
    rule = await doors.allow("reader", [Action.CONSUME], NS, "t")
    browser = await guarded_site.as_somebody("reader")
    await browser.get(f"{PAGE}/messages")
    await doors.grants.remove_rule(rule.id)
    assert (await browser.ask(f"{PAGE}/messages")).status_code == HTTPStatus.NOT_FOUND


async def test_a_forged_cookie_is_nobody(guarded_site: Site) -> None:
    for value in ("", "x" * 43, '"', "a; b", "\xff"):
        headers = [(b"cookie", b"tms_console=" + value.encode("latin-1"))]
        answer = await guarded_site.browser.http.get("/console/topics", headers=headers)
        assert answer.url.path == "/console/sign-in"


async def test_without_access_control_other_names_of_the_server_are_refused(
    open_site: Site,
) -> None:
    async with httpx.AsyncClient(base_url=open_site.url, trust_env=False, verify=False) as http:
        answer = await http.get("/console", headers={"x-forwarded-for": "10.0.0.1"})
        assert answer.status_code == HTTPStatus.OK
        answer = await http.get("/console", headers={"host": "evil.example"})
        assert answer.status_code == HTTPStatus.MISDIRECTED_REQUEST
