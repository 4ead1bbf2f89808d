"""A verified credential is remembered, within bounds, until it is revoked."""

import base64
from collections.abc import AsyncIterator

import pytest

from tests.manual_clock import ManualClock
from tms.core.errors import NotAuthenticated
from tms.metadata.host import MetadataHost
from tms.security.credentials import Scheme, Verified
from tms.security.grants import GrantOptions, Grants
from tms.security.rules import Identity
from tms.security.sessions import SESSIONS_MAX, SESSIONS_OF_ONE_MAX, Sessions
from tms.security.tokens import new_token

pytestmark = pytest.mark.anyio
ADDRESS = "127.0.0.1"


@pytest.fixture
async def grants(anyio_backend: str) -> AsyncIterator[Grants]:
    grants = Grants(GrantOptions(), ManualClock(0))
    await grants.open(MetadataHost().open_session())
    yield grants
    await grants.close()


async def token_of(grants: Grants, principal: str) -> str:
    token, kept = new_token(principal)
    await grants.add_token(kept)
    return token


async def named(value: str, address: str = ADDRESS) -> Verified:
    """Accept any credential, as that of the name in front."""
    del address
    return Verified(Identity(value.split(".", maxsplit=1)[0]), None, Scheme.JWT)


def spelled(token: str, count: int) -> list[bytes]:
    """Return several spellings of one token."""
    cases = [
        "".join(
            letter.upper() if number >> at & 1 else letter for at, letter in enumerate("bearer")
        )
        for number in range(64)
    ]
    return [
        f"{cases[number % 64]}{' ' * (1 + number // 64)}{token}".encode() for number in range(count)
    ]


async def test_one_credential_is_kept_once_however_it_is_spelled(grants: Grants) -> None:
    sessions = Sessions(grants, ManualClock(0))
    others = f"Bearer {await token_of(grants, 'bob')}".encode()
    kept = await sessions.of_header(others, ADDRESS)
    found = {
        await sessions.of_header(header, ADDRESS)
        for header in spelled(await token_of(grants, "ann"), 17_000)
    }
    assert {session.identity.principal for session in found} == {"ann"}
    assert (len(found), len(sessions)) == (1, 2)
    assert sessions.cached(others) is kept


async def test_a_password_is_one_however_its_base64_ends(grants: Grants) -> None:
    async def verify(value: str, address: str) -> Verified:
        del address
        return Verified(Identity(base64.b64decode(value).split(b":")[0].decode()), None, Scheme.JWT)

    sessions = Sessions(grants, ManualClock(0), passwords=verify)
    values = [b"Basic YTpi" + end for end in (b"Yg==", b"Yh==", b"Yi==", b"Yv==")]
    assert len({await sessions.of_header(value, ADDRESS) for value in values}) == 1
    assert len(sessions) == 1


async def test_who_has_many_credentials_gives_up_its_own(grants: Grants) -> None:
    sessions = Sessions(grants, ManualClock(0), web_tokens=named)
    await sessions.of_header(b"Bearer bob.1", ADDRESS)
    for number in range(SESSIONS_OF_ONE_MAX + 1):
        await sessions.of_header(f"Bearer ann.{number}".encode(), ADDRESS)
    assert len(sessions) == SESSIONS_OF_ONE_MAX + 1
    assert sessions.cached(b"Bearer bob.1") is not None
    assert sessions.cached(b"Bearer ann.0") is None
    assert sessions.cached(b"Bearer ann.1") is not None


async def test_all_together_are_bounded_and_so_is_each(grants: Grants) -> None:
    sessions = Sessions(grants, ManualClock(0), web_tokens=named)
    for number in range(SESSIONS_MAX + 100):
        await sessions.of_header(f"Bearer p{number}.{'x' * 200}".encode(), ADDRESS)
    assert len(sessions) == len(sessions._of_principal) == SESSIONS_MAX
    assert max(map(len, sessions._by_key)) <= 32, "long ones are kept by a digest"


async def test_a_session_knows_that_its_token_is_revoked_kept_or_not(grants: Grants) -> None:
    clock = ManualClock(0)
    sessions = Sessions(grants, clock, web_tokens=named)
    token = await token_of(grants, "ann")
    header = f"Bearer {token}".encode()
    session = await sessions.of_header(header, ADDRESS)
    for number in range(SESSIONS_OF_ONE_MAX):
        await sessions.of_header(f"Bearer ann.{number}".encode(), ADDRESS)
    assert sessions.cached(header) is None, "it was pushed out"
    assert not session.is_over(grants, clock)
    again = await sessions.of_header(header, ADDRESS)
    await grants.remove_token(token.split("_")[1])
    assert session.is_over(grants, clock)
    assert again.is_over(grants, clock)
    assert sessions.cached(header) is None
    with pytest.raises(NotAuthenticated):
        await sessions.of_header(header, ADDRESS)
