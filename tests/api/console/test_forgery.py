"""Forms that are forged or not permitted do nothing, nor does a read-only console."""

from collections.abc import Awaitable, Callable

import httpx
import pytest

from tests.api.console.site import NS, PAGE, TOPIC, Browser, Site, site
from tests.api.doors import ROOT, Doors
from tms.core.values.message import FIRST_ID
from tms.core.values.reading import Reading
from tms.core.values.topic import TopicId
from tms.security.resources import Action

pytestmark = pytest.mark.anyio

FORMS = {
    f"namespaces/{NS}/topics": {"name": "new"},
    f"{PAGE}/change": {"ttl": "60"},
    f"{PAGE}/trim": {"before": "2026-01-01", "typed": "t"},
    f"{PAGE}/delete": {"typed": "t"},
    f"{PAGE}/publish": {"payload": "x"},
    f"namespaces/{NS}/declare": {"ttl_s_max": "60"},
    f"namespaces/{NS}/delete": {"typed": NS},
    "cleanup/run": {},
}
"""Each form that changes something."""
Forging = Callable[[Browser, str, dict[str, str]], Awaitable[httpx.Response]]


async def _state(opened: Site) -> object:
    """Return all that the forms could change."""
    services = opened.services
    assert services.cleanup is not None
    page = await services.messaging.page(TOPIC, Reading(FIRST_ID))
    return (
        await services.messaging.topics(NS),
        await services.messaging.topic(TOPIC),
        page.count,
        await services.namespaces.namespace(NS),
        (await services.cleanup.state()).passes,
    )


async def _without_token(browser: Browser, path: str, fields: dict[str, str]) -> httpx.Response:
    return await browser.http.post(f"/console/{path}", data=fields)


async def _with_wrong_token(browser: Browser, path: str, fields: dict[str, str]) -> httpx.Response:
    return await browser.post(path, {**fields, "csrf": "x" * 32})


async def _from_another_site(browser: Browser, path: str, fields: dict[str, str]) -> httpx.Response:
    return await browser.post(path, fields, {"origin": "http://evil.example"})


async def _from_another_site_by_name(
    browser: Browser, path: str, fields: dict[str, str]
) -> httpx.Response:
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    return await browser.post(path, fields, headers)


async def _as_json(browser: Browser, path: str, fields: dict[str, str]) -> httpx.Response:
    return await browser.http.post(f"/console/{path}", json={"csrf": browser.csrf, **fields})


async def _in_the_query(browser: Browser, path: str, fields: dict[str, str]) -> httpx.Response:
    return await browser.http.post(f"/console/{path}", params={"csrf": browser.csrf, **fields})


FORGINGS = {
    each.__name__: each
    for each in (
        _without_token,
        _with_wrong_token,
        _from_another_site,
        _from_another_site_by_name,
        _as_json,
        _in_the_query,
    )
}


@pytest.mark.parametrize("forging", FORGINGS)
@pytest.mark.parametrize("is_guarded", [False, True], ids=["open", "guarded"])
async def test_a_forged_form_does_nothing(
    anyio_backend: object,
    forging: str,
    is_guarded: bool,  # noqa: FBT001  a parameter of tests
) -> None:
    doors = Doors() if is_guarded else None
    if doors is not None:
        await doors.open()
    async with site(doors) as opened:
        await opened.create()
        browser = await opened.as_somebody(ROOT) if is_guarded else opened.browser
        await browser.get(PAGE)
        assert browser.csrf
        before = await _state(opened)
        for path, fields in FORMS.items():
            answer = await FORGINGS[forging](browser, path, fields)
            assert answer.status_code in {400, 403}, path
            assert await _state(opened) == before, path


async def test_the_token_of_another_session_does_nothing(guarded_site: Site) -> None:
    await guarded_site.create()
    mine, theirs = [await guarded_site.as_somebody(ROOT) for _ in range(2)]
    await mine.get(PAGE)
    await theirs.get(PAGE)
    assert mine.csrf != theirs.csrf
    before = await _state(guarded_site)
    for path, fields in FORMS.items():
        answer = await mine.post(path, {**fields, "csrf": theirs.csrf})
        assert answer.status_code == 403, path
        assert await _state(guarded_site) == before, path


async def test_who_is_not_signed_in_changes_nothing(guarded_site: Site) -> None:
    await guarded_site.create()
    signed_in = await guarded_site.as_somebody(ROOT)
    await signed_in.get(PAGE)
    before = await _state(guarded_site)
    for path, fields in FORMS.items():
        answer = await guarded_site.browser.post(path, {**fields, "csrf": signed_in.csrf})
        assert answer.status_code == 401, path
        assert await _state(guarded_site) == before, path


async def test_who_may_nothing_changes_nothing(guarded_site: Site) -> None:
    await guarded_site.create()
    doors = guarded_site.doors
    assert doors is not None
    await doors.allow("nobody", [Action.MANAGE], "elsewhere")
    browser = await guarded_site.as_somebody("nobody")
    await browser.get("topics", namespace="elsewhere")
    assert browser.csrf
    before = await _state(guarded_site)
    for path, fields in FORMS.items():
        answer = await browser.post(path, fields)
        assert answer.status_code in {403, 404}, path
        assert await _state(guarded_site) == before, path


async def test_a_read_only_console_changes_nothing_and_has_no_buttons(
    anyio_backend: object,
) -> None:
    async with site(is_read_only=True) as opened:
        await opened.create()
        before = await _state(opened)
        shown = ("topics?namespace=ns", PAGE, f"{PAGE}/messages", "cleanup", f"namespaces/{NS}")
        for path in shown:
            page = await opened.browser.get(path)
            assert 'method="post"' not in page, path
            assert "read-only" in page
        for path, fields in FORMS.items():
            answer = await opened.browser.post(path, fields)
            assert answer.status_code == 403, path
            assert await _state(opened) == before, path


async def test_each_form_changes_something_if_it_is_not_forged(open_site: Site) -> None:
    """If this test fails, the other tests of this file test nothing."""
    for path, fields in FORMS.items():
        if TopicId(NS, "t").name not in await open_site.services.messaging.topics(NS):
            await open_site.create()
        if path.endswith(f"{NS}/delete"):
            await open_site.browser.post(f"namespaces/{NS}/declare", {"ttl_s_max": "60"})
        await open_site.browser.get(PAGE)
        before = await open_site.services.messaging.topics(NS), await _state(open_site)
        answer = await open_site.browser.post(path, fields)
        assert answer.status_code == 200, (path, answer.text)
        after = await open_site.services.messaging.topics(NS)
        assert after != before[0] or await _state(open_site) != before[1], path


async def test_a_link_of_another_site_reports_nothing(open_site: Site) -> None:
    async def told(site_of_link: str) -> bool:
        headers = {"sec-fetch-site": site_of_link, "sec-fetch-mode": "navigate"}
        path = "/console/cleanup?told=call+this+number"
        return "call this number" in (await open_site.browser.http.get(path, headers=headers)).text

    assert await told("same-origin")
    assert not await told("cross-site")
    assert not await told("none")
