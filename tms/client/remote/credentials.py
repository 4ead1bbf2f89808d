"""The credentials of a client: a token, a name and a password, or a source of tokens.

Guarantees that the value is shown nowhere: not by `repr`, not in errors, and it is not pickled. A
source that may have a new value, a file or a function, is read again after a value is refused; only
once, however many calls were refused with that value. Used in one event loop.
"""

import asyncio
import base64
import inspect
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NoReturn

from tms.core.text.credentials import without_credentials

Auth = str | tuple[str, str] | Path | Callable[[], str | Awaitable[str]]
"""A token; a user and a password; a file with a token; or a function, which may be asynchronous,
that returns a token."""

_TOKEN = re.compile(r"[!-~]+")
_TOKEN_BYTES_MAX = 32 * 1024
_Source = Callable[[], Awaitable[str]]


class Credentials:
    """The value of Authorization, and the source of another if it is refused."""

    __slots__ = ("_getting", "_source", "_value", "_what")

    def __init__(self, what: str, value: str | None, source: _Source | None) -> None:
        """Begin with `value` if there is one, and get others from `source` if there is one."""
        self._what = what
        self._value = value
        self._source = source
        self._getting = asyncio.Lock()

    def __repr__(self) -> str:
        """Return the kind of the credentials, not their value."""
        return f"{type(self).__name__}({self._what})"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: a pickle would show them."""
        raise TypeError("credentials are not pickled: make the client where it is used")

    def forget_parent(self) -> None:
        """Drop the lock, which the parent of this process may hold."""
        self._getting = asyncio.Lock()

    async def header(self) -> str:
        """Return the value to send. Raises what the source raises, and `ValueError`."""
        value = self._value
        return value if value is not None else await self._newer(None)

    async def renewed(self, refused: str) -> str | None:
        """Return another value than the refused one; None if there is none.

        Raises as `header`.
        """
        if self._source is None:
            return None
        value = await self._newer(refused)
        return None if value == refused else value

    async def _newer(self, old: str | None) -> str:
        """Return a newer value than `old`, reading the source unless another call just did."""
        async with self._getting:
            if self._value is None or self._value == old:
                assert self._source is not None
                self._value = await self._source()
            return self._value


def credentials_of(auth: Auth) -> Credentials | None:
    """Return credentials in one of the forms of `Auth`; None for an empty text.

    Raises `ValueError` for what cannot be sent, and for a file that cannot be read.
    """
    match auth:
        case "":
            return None
        case str():
            return Credentials("a token", _bearer(auth, "the token"), None)
        case Path():
            value = _read(auth)
            return Credentials(f"the token in {auth}", value, lambda: _reread(auth, value))
        case (str(user), str(password)):
            return Credentials("a user and a password", _basic(user, password), None)
        case _ if callable(auth):
            return Credentials("a function's tokens", None, lambda: _asked(auth))
        case _:
            raise TypeError("auth is a token, (user, password), a Path, or a function")


async def _asked(function: Callable[[], str | Awaitable[str]]) -> str:
    try:
        returned = await asyncio.to_thread(function)
        token = await returned if inspect.isawaitable(returned) else returned
    except (
        SystemExit,
        KeyboardInterrupt,
    ) as error:  # raised in a task, it would stop the event loop
        raise RuntimeError(f"auth raised {error!r}") from error
    if not isinstance(token, str):
        raise TypeError(f"auth returned {type(token).__name__}: a token is a str")
    return _bearer(token.strip(), "the token that auth returned")


def _read(file: Path) -> str:
    try:
        with file.open(encoding="ascii") as opened:
            token = opened.read(_TOKEN_BYTES_MAX + 1).strip()
    except OSError as error:
        shown = without_credentials(str(file))  # it may be the token itself
        raise ValueError(f"the token file {shown} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"the token file {file} has more than a token in it") from None
    return _bearer(token, f"the content of the token file {file}")


async def _reread(file: Path, old: str) -> str:
    """Return the file's token; the `old` one if it has no valid token at the moment."""
    try:
        return _read(file)
    except ValueError:
        return old


def _bearer(token: str, what: str) -> str:
    if len(token) > _TOKEN_BYTES_MAX or not _TOKEN.fullmatch(token):
        raise ValueError(
            f"{what} is not a valid token: a token has visible characters, without spaces"
        )
    return f"Bearer {token}"


def _basic(user: str, password: str) -> str:
    if ":" in user or not (user + password).isprintable():
        raise ValueError(
            "a user must not have a colon, and neither the user nor the password control characters"
        )
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
