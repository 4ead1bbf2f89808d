"""A token of the issuer is accepted until it expires, and a token of anybody else never is."""

import asyncio
import base64
import hashlib
import hmac
import json
import re
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from hypothesis import given
from hypothesis import strategies as st

from tests.manual_clock import ManualClock
from tests.security.web_keys import ALL, ED, KEYS, RSA, jwk, key_set
from tms.core.errors import NotAuthenticated
from tms.security.credentials import Scheme, Verified
from tms.security.json_web_keys import WebKeys, keys_of
from tms.security.json_web_tokens import WebTokenVerifier
from tms.security.rules import Identity

NOW_S = 1_700_000_000
CLAIMS: dict[str, Any] = {
    "iss": "https://issuer",
    "aud": "tms",
    "sub": "ann",
    "exp": NOW_S + 300,
    "nbf": NOW_S - 10,
    "groups": ["g", "h"],
}
HEAD = {"alg": "RS256", "kid": "RS256"}


@pytest.fixture(scope="module")
def keys_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("keys") / "keys.json"
    file.write_bytes(ALL)
    return file


def verified(file: Path, token: str, clock: ManualClock | None = None, **other: Any) -> Verified:
    clock = clock or ManualClock(NOW_S * 1000)

    async def verify() -> Verified:
        keys = WebKeys(str(file), clock)
        await keys.open()
        made = WebTokenVerifier(keys, "https://issuer", "tms", clock=clock, **other)
        try:
            return await made.verify(token)
        finally:
            await keys.close()

    return asyncio.run(verify())


def refusal(file: Path, token: str, clock: ManualClock | None = None, **other: Any) -> str:
    with pytest.raises(NotAuthenticated) as caught:
        verified(file, token, clock, **other)
    assert caught.value.problem.code == "credentials_invalid"
    return str(caught.value.detail["reason"])


def signed(algorithm: str = "RS256", key: Any = None, head: Any = None, **claims: Any) -> str:
    """Return a token; a claim that is None is left out."""
    told = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    headers = {"kid": algorithm} if head is None else head
    return jwt.encode(told, key or KEYS[algorithm], algorithm, headers)


def part(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def by_rsa(head: Any, claims: Any) -> str:
    """Return a token with the given head, signed as RS256."""
    text = f"{part(head)}.{part(claims)}"
    return f"{text}.{part(RSA.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


@pytest.mark.parametrize("algorithm", list(KEYS))
def test_who_it_is_and_until_when(keys_file: Path, algorithm: str) -> None:
    identity = Identity("ann", frozenset(["g", "h"]))
    ends_ms = (NOW_S + 300 + 30) * 1000
    assert verified(keys_file, signed(algorithm)) == Verified(identity, ends_ms, Scheme.JWT)


def test_other_claims_may_say_who_it_is(keys_file: Path) -> None:
    token = signed(email="ann@example.org", roles=["r"], aud=["other", "tms"])
    found = verified(keys_file, token, principal_claim="email", groups_claim="roles")
    assert found.identity == Identity("ann@example.org", frozenset("r"))
    assert verified(keys_file, signed(groups=None)).identity == Identity("ann")


def test_it_holds_from_its_start_to_its_end_by_the_given_clock(keys_file: Path) -> None:
    token = signed()
    start_ms, end_ms = (NOW_S - 10 - 30) * 1000, (NOW_S + 300 + 30) * 1000
    assert verified(keys_file, token, ManualClock(start_ms))
    assert verified(keys_file, token, ManualClock(end_ms - 1))
    assert "not valid yet" in refusal(keys_file, token, ManualClock(start_ms - 1))
    assert "expired" in refusal(keys_file, token, ManualClock(end_ms))
    assert "expired" in refusal(keys_file, token, ManualClock(end_ms - 30_000), leeway_s=0)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"iss": "https://other"}, "another issuer"),
        ({"aud": "tms2"}, "another audience"),
        ({"aud": []}, "lacks one of"),
        *[
            ({name: None}, "lacks one of iss, aud, exp, nbf")
            for name in ("iss", "aud", "exp", "nbf")
        ],
        ({"exp": "soon"}, "claim exp is not a time"),
        ({"exp": True}, "claim exp is not a time"),
        ({"exp": 10**400}, "claim exp is not a time"),
        ({"exp": float("inf")}, "claim exp is not a time"),
        ({"nbf": float("nan")}, "claim nbf is not a time"),
        ({"nbf": -1}, "claim nbf is not a time"),
        ({"sub": None}, "claim sub is missing"),
        ({"sub": 7}, "claim sub is missing"),
        ({"sub": ""}, "1 to 255"),
        ({"sub": "x" * 256}, "1 to 255"),
        ({"sub": "a\nb"}, "visible"),
        ({"sub": "\ud800"}, "visible"),
        ({"sub": "anonymous"}, "cannot be principals"),
        ({"sub": "server:1"}, "cannot be principals"),
        ({"sub": "group:admins"}, "cannot be principals"),
        ({"groups": "g"}, "not a list of texts"),
        ({"groups": [1]}, "not a list of texts"),
        ({"groups": ["a\x00"]}, "a group"),
        ({"groups": [str(n) for n in range(101)]}, "100 groups"),
        ({"more": "x" * 20_000}, "over 16384 bytes"),
    ],
)
def test_what_is_wrong_is_reported(keys_file: Path, claims: dict[str, Any], reason: str) -> None:
    assert re.search(reason, refusal(keys_file, signed(**claims)))


def test_nothing_but_the_keys_own_algorithm_is_taken(keys_file: Path) -> None:
    public = RSA.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for name in ("HS256", "none", "NONE", "RS512", "PS256", "ES384", 5, None, ["RS256"]):
        text = f"{part({'alg': name, 'kid': 'RS256'})}.{part(CLAIMS)}"
        by_public = hmac.digest(public, text.encode(), hashlib.sha256)
        for signature in ("", part(by_public), part(b"x" * 256)):
            assert "not signed by one of" in refusal(keys_file, f"{text}.{signature}")
    assert "another algorithm" in refusal(keys_file, signed("ES256", head={"kid": "RS256"}))
    assert "another algorithm" in refusal(
        keys_file, by_rsa({"alg": "EdDSA", "kid": "RS256"}, CLAIMS)
    )


def test_a_token_of_somebody_else_is_refused(keys_file: Path) -> None:
    others = {
        "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
        "ES256": ec.generate_private_key(ec.SECP256R1()),
        "EdDSA": ed25519.Ed25519PrivateKey.generate(),
    }
    for algorithm, other in others.items():
        assert "signature is wrong" in refusal(keys_file, signed(algorithm, other))
    for kid in ("../../dev/null", "", "RS256\x00", "https://evil"):
        assert "key" in refusal(keys_file, signed(head={"kid": kid}))
    head, _, signature = signed().split(".")
    forged = f"{head}.{part({**CLAIMS, 'sub': 'root'})}.{signature}"
    assert "signature is wrong" in refusal(keys_file, forged)


def test_keys_in_the_token_itself_are_not_used(keys_file: Path) -> None:
    evil = ec.generate_private_key(ec.SECP256R1())
    head = {"kid": "evil", "jwk": jwk("ES256", evil, "evil"), "jku": "https://evil", "x5u": "x"}
    assert "unknown" in refusal(keys_file, signed("ES256", evil, head=head))
    with_own = {**head, "kid": "ES256"}
    assert "signature is wrong" in refusal(keys_file, signed("ES256", evil, head=with_own))


def test_critical_extensions_are_refused(keys_file: Path) -> None:
    assert "critical" in refusal(keys_file, by_rsa({**HEAD, "crit": ["b64"], "b64": True}, CLAIMS))
    assert refusal(keys_file, by_rsa({**HEAD, "crit": []}, CLAIMS))
    assert verified(keys_file, by_rsa(HEAD, CLAIMS)).identity.principal == "ann"


def test_a_key_id_may_lack_if_there_is_one_key(keys_file: Path, tmp_path: Path) -> None:
    one = tmp_path / "one.json"
    one.write_bytes(key_set(jwk("EdDSA", ED, None)))
    assert verified(one, signed("EdDSA", head={})).identity.principal == "ann"
    assert "names no key" in refusal(keys_file, signed("EdDSA", head={}))


@pytest.mark.parametrize("depth", [100, 5_000])
def test_json_that_is_deep_or_none_is_refused(keys_file: Path, depth: int) -> None:
    deep = b'{"a":' + b"[" * depth + b"]" * depth + b"}"
    assert refusal(keys_file, f"{part(deep)}.{part(CLAIMS)}.x")
    text = f"{part(HEAD)}.{part(deep)}"
    assert refusal(keys_file, f"{text}.{part(b'x' * 256)}")
    assert refusal(keys_file, by_rsa(HEAD, [CLAIMS]))
    assert refusal(keys_file, by_rsa([HEAD], CLAIMS))
    assert refusal(keys_file, by_rsa({**HEAD, "kid": 5}, CLAIMS))
    assert refusal(keys_file, by_rsa(HEAD, {**CLAIMS, "iss": ["https://issuer"]}))


@given(st.one_of(st.text(max_size=60), st.binary(max_size=90).map(part)), st.integers(0, 2))
def test_any_text_in_a_tokens_place_is_refused(text: str, place: int) -> None:
    parts = signed("ES256").split(".")
    if parts[place] == text:
        return
    parts[place] = text
    with pytest.raises(NotAuthenticated):
        by_keys_in_memory(".".join(parts))


def by_keys_in_memory(token: str) -> Verified:
    clock = ManualClock(NOW_S * 1000)
    keys = WebKeys(__file__, clock)
    keys._keys = keys_of(ALL)
    return asyncio.run(WebTokenVerifier(keys, "https://issuer", "tms", clock=clock).verify(token))


def test_a_refusal_has_no_part_of_the_token(keys_file: Path) -> None:
    token = signed(sub="canary\n", iss="canary")
    assert "canary" not in refusal(keys_file, token)
    assert "canary" not in refusal(keys_file, signed(sub="canary\n"))
