"""Paths lead to the routes whose templates they fit."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.http.router import Route, RouteMatch, Router, Unmatched
from tms.core.errors import InvalidRequest

ROUTES = (
    Route("GET", "/", "root"),
    Route("GET", "/a", "a"),
    Route("PUT", "/a", "put a"),
    Route("GET", "/a/{x}", "a x"),
    Route("GET", "/a/b", "a b"),
    Route("GET", "/a/{x}/c", "a x c"),
    Route("GET", "/a/b/d", "a b d"),
    Route("DELETE", "/a/{y}/{z}", "a y z"),
)
LITERALS = ("a", "b", "c", "d")
ROUTER = Router(ROUTES)


@pytest.mark.parametrize(
    ("method", "path", "target", "names"),
    [
        ("GET", "/", "root", {}),
        ("GET", "//", "root", {}),
        ("HEAD", "/a", "a", {}),
        ("GET", "/a/", "a", {}),
        ("PUT", "/a", "put a", {}),
        ("GET", "/a/b", "a b", {}),
        ("GET", "/a/other", "a x", {"x": "other"}),
        ("GET", "/a/b/c", "a x c", {"x": "b"}),
        ("GET", "/a/b/d", "a b d", {}),
        ("DELETE", "/a/1/2", "a y z", {"y": "1", "z": "2"}),
        ("GET", "/a/1%2F2", "a x", {"x": "1/2"}),
        ("GET", "/a/%C3%A4", "a x", {"x": "ä"}),
        ("GET", "/%61/%62", "a b", {}),
        ("GET", "/a/%2e%2e", "a x", {"x": ".."}),
    ],
)
def test_a_path_leads_to_its_route(
    method: str, path: str, target: str, names: dict[str, str]
) -> None:
    assert ROUTER.find(method, path) == RouteMatch(target, names)


@pytest.mark.parametrize("path", ["", "a", "*", "x/a", "/b", "/a//", "/a//c", "/a/b/c/d", "/a%2Fb"])
def test_a_path_of_no_route_is_not_found(path: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ROUTER.find("GET", path)

    detail = {"path": path.removesuffix("/")}
    assert (refused.value.problem.code, refused.value.detail) == ("not_found", detail)


def test_another_method_is_answered_with_the_allowed_ones() -> None:
    with pytest.raises(InvalidRequest) as refused:
        ROUTER.find("POST", "/a")

    assert refused.value.problem.code == "method_not_allowed"
    assert refused.value.detail["allow"] == "GET, HEAD, PUT"


def test_what_is_not_utf8_is_refused() -> None:
    with pytest.raises(InvalidRequest) as refused:
        ROUTER.find("GET", "/a/%ff")

    assert refused.value.problem.code == "malformed_request"


def test_a_literal_hides_a_name_from_other_methods_too() -> None:
    """OpenAPI requires it: a literal path goes before one with a parameter."""
    with pytest.raises(InvalidRequest) as refused:
        ROUTER.find("DELETE", "/a/0/c")

    assert refused.value.detail["allow"] == "GET, HEAD"


NAMES = st.text(min_size=1).filter(lambda name: name not in LITERALS)


@given(x=NAMES, y=NAMES)
def test_a_name_comes_back_as_it_was_quoted(x: str, y: str) -> None:
    path = f"/a/{quote(x, safe='')}/{quote(y, safe='')}"

    assert ROUTER.find("DELETE", path) == RouteMatch("a y z", {"y": x, "z": y})


def test_routes_are_mounted_behind_a_prefix_that_has_a_name() -> None:
    router = Router(ROUTES)
    router.mount("/contexts/{context}", ROUTES)

    assert router.find("GET", "/contexts/c%2F1/a/2") == RouteMatch(
        "a x", {"context": "c/1", "x": "2"}
    )
    assert router.find("GET", "/a/2") == RouteMatch("a x", {"x": "2"})


def test_below_a_prefix_another_table_answers_also_what_leads_nowhere() -> None:
    def told(name: str) -> Unmatched[str]:
        return lambda code, detail: f"{name}: {code} {sorted(detail)}"

    router = Router(ROUTES, told("main"))
    router.mount_whole("/v1/below", Router(ROUTES, told("below")))

    for prefix, name in (("", "main"), ("/v1/below", "below"), ("/v1/b%65low", "below")):
        assert router.find("GET", f"{prefix}/a/1").target == "a x"
        assert router.find("GET", prefix or "/").target == "root"
        assert router.find("GET", f"{prefix}/").target == "root"
        assert router.find("GET", f"{prefix}/b").target == f"{name}: not_found ['path']"
        assert router.find("GET", f"{prefix}/%ff").target == f"{name}: malformed_request ['reason']"
        refused = router.find("POST", f"{prefix}/a").target
        assert refused == f"{name}: method_not_allowed ['allow', 'method']"
    assert router.find("GET", "/v1/belowx").target == "main: not_found ['path']"


def test_paths_that_are_asked_for_once_drop_none_that_is_asked_for_again() -> None:
    router = Router(ROUTES)
    for _ in range(2):
        kept = router.find("GET", "/a/kept")
    for number in range(20_000):
        router.find("GET", f"/a/{number}")
    assert router.find("GET", "/a/kept") is kept
    assert len(router._known) == 1
    assert len(router._asked_once) == 1_024
