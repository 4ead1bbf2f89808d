"""Authorization headers are read as intended, and nobody gets in under another's name."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tms.core.errors import NotAuthenticated
from tms.security.credentials import HEADER_BYTES_MAX, Credential, Scheme, credential_of, tried_by
from tms.security.principals import check_principal, checked_identity
from tms.security.rules import Identity
from tms.security.tokens import new_token


def refusal(header: bytes) -> str:
    with pytest.raises(NotAuthenticated) as caught:
        credential_of(header)
    assert caught.value.problem.code == "credentials_invalid"
    return str(caught.value.detail["reason"])


def test_a_token_of_ours_is_distinguished_from_those_of_others() -> None:
    token, _ = new_token("ann")
    assert credential_of(f"Bearer {token}".encode()) == Credential(Scheme.TOKEN, token)
    assert credential_of(b"bEARER   a.b-c_d.e") == Credential(Scheme.JWT, "a.b-c_d.e")
    assert credential_of(b" BEARER x~+/== ") == Credential(Scheme.JWT, "x~+/==")
    assert credential_of(b"basic YTpi") == Credential(Scheme.BASIC, "YTpi")
    assert token not in repr(credential_of(f"Bearer {token}".encode()))


@given(st.binary(min_size=1, max_size=300))
def test_whatever_is_behind_basic_comes_through(data: bytes) -> None:
    value = base64.b64encode(data)
    assert credential_of(b"Basic " + value) == Credential(Scheme.BASIC, value.decode())


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"Bearer",
        b"Bearer ",
        b"Bearer\tsecret",
        b"secret",
        b"Bearer secret secret",
        b"Bearer s\xc3\xa9cret",
        b'Bearer "secret"',
        b"Bearer =secret",
        b"Bearer secret\n",
        b"Bearer secret, Basic secret",
        b"Basic sec-ret",
        b"Basic secret===",
        b"Digest secret",
        b"Negotiate secret",
        b"Bearer " + b"secret" * HEADER_BYTES_MAX,
    ],
)
def test_anything_else_is_refused_and_not_repeated(header: bytes) -> None:
    reason = refusal(header)
    assert reason
    assert "secret" not in reason
    assert "ret" not in reason.split()


@given(st.binary(max_size=50))
def test_any_bytes_are_read_or_refused(header: bytes) -> None:
    try:
        credential = credential_of(header)
    except NotAuthenticated:
        return
    assert credential.value.encode() in header


@pytest.mark.parametrize("name", ["a", "x" * 255, "ann@example.org", "an n", "グ", "serverx", "*a"])
def test_somebody_may_have_a_name(name: str) -> None:
    assert check_principal(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "x" * 256, "*", "group:admins", "server:1", "server:", "anonymous", "a\n", "a\x00b"),
        *(" a", "a ", "a\u202eb", "\ud800", "a\u2028b", "\x7f"),
    ],
)
def test_nobody_may_have_a_name_that_is_not_ones_own(name: str) -> None:
    with pytest.raises(NotAuthenticated, match=r"a principal |another meaning"):
        check_principal(name)


def test_groups_are_bounded() -> None:
    assert checked_identity("ann", ["g", "h", "g"]) == Identity("ann", frozenset("gh"))
    assert checked_identity("ann", map(str, range(100))).groups
    for wrong in (
        [""],
        ["a\n"],
        ["x" * 256],
        map(str, range(101)),
        [f"{n}" * 99 for n in range(99)],
    ):
        with pytest.raises(NotAuthenticated, match="group"):
            checked_identity("ann", wrong)


def test_what_was_tried_is_distinguished_and_not_reported() -> None:
    def basic(name: str) -> bytes:
        return b"Basic " + base64.b64encode(f"{name}:s3cret".encode())

    token, kept = new_token("ann")
    assert tried_by(f"Bearer {token}".encode()) == kept.id
    assert tried_by(basic("ann")) == tried_by(basic("ann"))
    assert tried_by(basic("ann")) != tried_by(basic("bob"))
    assert "ann" not in str(tried_by(basic("ann")))
    for header in (b"", b"Bearer x.y.z", b"Bearer tms_x", b"Basic ===", b"Digest x"):
        assert tried_by(header) is None
