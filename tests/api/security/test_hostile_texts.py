"""An error about a caller's text costs no more than its length, and shows no password from it."""

from collections.abc import Callable
from functools import partial

import pytest

from api.http import query_parameters
from api.http.errors import answer_of
from api.http.protocol.media_types import check_type
from api.http.router import Route, Router
from api.registry.errors import refusal_of
from api.registry.requests import REQUEST_TYPES, best_type
from tests.api.security.hostile import KINDS, SECRET, hostile, is_linear
from tms.core.errors import TmsError, error_of
from tms.core.errors.catalogue import CATALOGUE
from tms.core.text.durations import seconds_of
from tms.core.values.message import parse_id
from tms.core.values.subscriptions import check_subscription_name
from tms.core.values.topic import TopicId, check_namespace, parse_properties, parse_ttl
from tms.registry.state.refusal import TEXTS, RegistryError
from tms.registry.state.subjects import check_scope
from tms.security.principals import checked_identity

ROUTER = Router([Route("GET", "/v1/namespaces/{namespace}/topics/{topic}", None)])


def _wait(text: str) -> None:
    query_parameters.wait_of({"wait": text}, 10)


def _names(text: str) -> None:
    query_parameters.check_names(text.encode(), ("wait",))


REFUSING: dict[str, Callable[[str], object]] = {
    "path": lambda text: ROUTER.find("GET", "/" + text),
    "method": lambda text: ROUTER.find(text, "/v1/namespaces/ns/topics/t"),
    "namespace": check_namespace,
    "topic": lambda text: TopicId("ns", text),
    "subscription": check_subscription_name,
    "id": parse_id,
    "ttl": parse_ttl,
    "property": lambda text: parse_properties({"partitions": text, text: [text]}, 1),
    "duration": seconds_of,
    "wait": _wait,
    "limit": lambda text: query_parameters.limit_of({"limit": text}),
    "time": lambda text: query_parameters.time_of({"before": text}, "before"),
    "transaction": query_parameters.transaction_id_of,
    "query": _names,
    "principal": lambda text: checked_identity(text, [text]),
    "scope": check_scope,
    "content type": lambda text: check_type(text.encode(), REQUEST_TYPES),
    "accept": lambda text: best_type(text.encode()),
}


def told(call: Callable[[str], object], text: str) -> bytes:
    """Return the message of a call's refusal, empty if the call succeeds."""
    try:
        call(text)
    except (TmsError, RegistryError) as error:
        form = refusal_of if isinstance(error, RegistryError) else answer_of
        return form(error).body + str(error).encode()
    except ValueError:
        pass
    return b""


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_refused_costs_no_more_than_its_length(kind: str) -> None:
    for name, call in REFUSING.items():
        assert is_linear(partial(told, call), kind), name
        assert SECRET.encode() not in told(call, hostile(kind, 64 * 1024)), name


@pytest.mark.parametrize("kind", KINDS)
def test_each_error_costs_no_more_than_its_length(kind: str) -> None:
    def of_all(text: str) -> None:
        answer_of(error_of("not_found", {"path": text, "all": [text]}))

    assert is_linear(of_all, kind)


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_no_error_shows_a_password(code: str) -> None:
    text = hostile("commas", 2048)
    error = error_of(code, {"given": text, "all": [text], "by": {"name": text}})

    assert SECRET.encode() not in answer_of(error).body
    assert SECRET.encode() not in refusal_of(error).body
    assert SECRET not in str(error)


@pytest.mark.parametrize("code", sorted(TEXTS))
def test_no_refusal_of_the_registry_shows_a_password(code: int) -> None:
    names = ("subject", "version", "reason", "details", "context", "which")
    text = hostile("commas", 2048)

    assert SECRET.encode() not in refusal_of(RegistryError(code, **dict.fromkeys(names, text))).body
