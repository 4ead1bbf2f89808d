"""`tms auth password`: its output lets the name in, and shows no password."""

import argon2
import pytest

from tests.cli.conftest import run_command
from tms.security.passwords import names_of


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
def test_its_line_is_one_of_the_file(ending: bytes) -> None:
    code, out, err = run_command("auth", "password", "alice", given=b"s3:cret canary" + ending)

    assert (code, err) == (0, "")
    assert "canary" not in out
    known = names_of(out.encode())["alice"]
    assert argon2.PasswordHasher().verify(known.hash, "s3:cret canary")


@pytest.mark.parametrize("name", ["a:b", "anonymous", "group:x", ""])
def test_names_that_nobody_may_have_are_reported(name: str) -> None:
    code, out, err = run_command("auth", "password", name, given=b"secret")

    assert (code, out) == (2, "")
    assert err


def test_no_password_is_reported() -> None:
    assert run_command("auth", "password", "alice", given=b"")[0] == 2
