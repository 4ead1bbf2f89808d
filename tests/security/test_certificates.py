"""Whom certificates name."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tms.security.certificates import principal_of_certificate


def certificate(*names: str, uris: tuple[str, ...] = (), dns: tuple[str, ...] = ()) -> Any:
    """Return a certificate in the form of `SSLSocket.getpeercert`."""
    return {
        "subject": ((("countryName", "CH"),), *((("commonName", name),) for name in names)),
        "subjectAltName": (
            *(("DNS", name) for name in dns),
            *(("URI", uri) for uri in uris),
        ),
    }


@pytest.mark.parametrize(
    ("shown", "principal"),
    [
        (certificate("alice"), "alice"),
        (certificate("Müller & Söhne"), "Müller & Söhne"),
        (certificate("alice", dns=("alice.example",)), "alice"),
        (certificate("alice", uris=("spiffe://shop/orders",)), "spiffe://shop/orders"),
        (certificate("x" * 255), "x" * 255),
        (certificate("x" * 256), None),
        (certificate(""), None),
        (certificate(" alice"), None),
        (certificate(), None),
        (certificate("alice", "bob"), None),
        (certificate("alice", uris=("a:b", "c:d")), None),
        (certificate("alice", uris=("server:1",)), None),
        (certificate("a\x00b"), None),
        (certificate("a\nb"), None),
        (certificate("a\u202eb"), None),
        (certificate("server:1"), None),
        (certificate("anonymous"), None),
        (certificate("group:admins"), None),
        (certificate("*"), None),
        ({}, None),
    ],
)
def test_a_certificate_names_one_or_nobody(shown: Any, principal: str | None) -> None:
    assert principal_of_certificate(shown) == principal


@given(st.text(), st.lists(st.text(), max_size=2))
def test_whatever_is_named_can_be_shown_and_is_not_a_name_of_the_service(
    name: str, uris: list[str]
) -> None:
    principal = principal_of_certificate(certificate(name, uris=tuple(uris)))

    if principal is not None:
        assert principal.isprintable()
        assert 0 < len(principal) <= 255
        assert principal not in ("*", "anonymous")
        assert not principal.startswith(("server:", "group:"))
        assert principal in (uris or [name])
