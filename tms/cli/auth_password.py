"""`tms auth password`: the line of a name and a password for the setting auth_passwords."""

import getpass
import sys
from typing import Annotated

import typer

from tms.cli.failure import stop
from tms.core.runtime import extras
from tms.security.principals import reason_against

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the user.")]


def password(name: NameArgument) -> None:
    """Ask for a password, and print the line for the file of the setting auth_passwords."""
    reason = reason_against(name)
    if reason is None and ":" in name:
        reason = "a name must not contain a colon, because a colon ends the name in the file"
    if reason is not None:
        stop(reason)
    try:
        from tms.security.passwords import hash_password  # noqa: PLC0415  needs the auth extra
    except ModuleNotFoundError as error:
        raise extras.missing("passwords need more", error, "auth") from None
    try:
        print(f"{name}:{hash_password(_asked_password())}")
    except ValueError as error:
        stop(str(error))


def _asked_password() -> str:
    """Return a password that the user typed twice, or the first line from a pipe."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != password:
        stop("The two passwords are not the same.")
    return password
