"""The host name and the origin in a request's head decide whether it is answered or refused."""

from contextlib import suppress

import pytest

from api.http.door.callers import Callers
from api.http.protocol.head import parse_head
from tms.core.errors import InvalidRequest


def refusal(callers: Callers, *lines: str, is_page: bool = False) -> str | None:
    """Return the code by which a head is refused, or None if it is accepted."""
    head = "GET / HTTP/1.1\r\n" + "".join(f"{line}\r\n" for line in lines) + "\r\n"
    try:
        callers.check(parse_head(head.encode())[2], is_page=is_page)
    except InvalidRequest as error:
        return error.problem.code
    return None


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LocalHost:11015",
        "localhost.",
        "a.localhost:1",
        "127.0.0.1",
        "192.168.1.7:80",
        "[::1]",
        "[fe80::1%25eth0]:80",
        "tms.example",
        "TMS.Example:443",
    ],
)
def test_names_of_this_server_are_answered(host: str) -> None:
    assert refusal(Callers(["tms.example"]), f"Host: {host}") is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "tms.example.evil",
        "xlocalhost",
        "127.0.0.1.evil",
        "tms.example:x",
        "a b",
        "",
    ],
)
def test_other_names_are_refused(host: str) -> None:
    assert refusal(Callers(["tms.example"]), f"Host: {host}") == "host_not_allowed"


def test_the_machines_own_name_is_answered_with_its_domain_and_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "Node1.example")
    callers = Callers()

    assert refusal(callers, "Host: node1.example:1") is None
    assert refusal(callers, "Host: node1") is None
    assert refusal(callers, "Host: node2") == "host_not_allowed"


def test_the_setting_is_named() -> None:
    with pytest.raises(InvalidRequest) as refused:
        Callers().check(parse_head(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")[2], is_page=False)

    assert refused.value.status == 421
    assert refused.value.detail["setting"] == "allowed_hosts"


CROSS = "Sec-Fetch-Site: cross-site"
NAVIGATE = "Sec-Fetch-Mode: navigate"


@pytest.mark.parametrize(
    ("lines", "is_page", "code"),
    [
        (("Origin: http://localhost:1",), False, None),
        (("Origin: https://localhost:1",), False, None),
        (("Origin: http://localhost",), False, "cross_site"),
        (("Origin: null",), False, "cross_site"),
        (("Origin: http://localhost:1", "Sec-Fetch-Site: same-origin"), False, None),
        (("Sec-Fetch-Site: none",), False, None),
        ((CROSS,), False, "cross_site"),
        (("Sec-Fetch-Site: same-site",), False, "cross_site"),
        ((CROSS, NAVIGATE), False, "cross_site"),
        ((CROSS, NAVIGATE), True, None),
        ((CROSS, "Sec-Fetch-Mode: no-cors"), True, "cross_site"),
        (("Origin: http://evil.example", NAVIGATE), True, None),
    ],
)
def test_pages_of_other_sites_are_refused(
    lines: tuple[str, ...],
    is_page: bool,  # noqa: FBT001  a parameter of the test
    code: str | None,
) -> None:
    assert refusal(Callers(), "Host: localhost:1", *lines, is_page=is_page) == code


def passed(callers: Callers, *lines: str) -> bool:
    """Return whether a head that was checked once is not checked again."""
    head = "GET / HTTP/1.1\r\n" + "".join(f"{line}\r\n" for line in lines) + "\r\n"
    fields = parse_head(head.encode())[2]
    with suppress(InvalidRequest):
        callers.check(fields, is_page=True)
    assert Callers() not in fields.passed, "others have to check for themselves"
    return callers in fields.passed


def test_only_what_passed_whatever_is_asked_for_is_not_checked_again() -> None:
    callers = Callers()

    assert passed(callers, "Host: localhost")
    assert not passed(callers, "Host: evil.example")
    of_page = "Host: localhost", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"
    assert not passed(callers, *of_page), "other operations refuse it"
