"""The addresses of the servers that one URL names, and which of them is asked first.

`http://a:11015,b:11015` names two servers of a cluster. Any of them answers for all; where one
certainly did nothing, because it is not there, stops, or knows no leader, the next one is asked.
One that only forwards to the leader makes way to the next too, so that the leader is soon asked
itself.
"""

import re
from collections.abc import Sequence

import httpx

from tms.core.credentials import without_credentials
from tms.core.errors import NoLeader, OutcomeUnknown, ServerUnreachable, Stopping

_SCHEMES = ("http", "https")
_PORT_MAX = 65535
_HOST = re.compile(r"[\w.-]+|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]+(%[\w.-]+)?")
_WRITE = "write http://HOST:PORT"


def is_of_servers(url: str) -> bool:
    """Whether a URL begins as those of servers do, right or not."""
    return url.strip().lower().startswith(tuple(f"{scheme}://" for scheme in _SCHEMES))


def parse_addresses(url: str) -> list[str]:
    """Return the URL of each server that `url` names. Raises `ValueError` where one is not valid.

    Spaces around one and capital letters in its scheme do not matter.
    """
    parts = [part.strip() for part in url.split(",")]
    scheme = parts[0].partition("://")[0]
    return [_parsed(part if "://" in part else f"{scheme}://{part}") for part in parts]


def _parsed(given: str) -> str:
    scheme, _, rest = given.partition("://")
    url, shown = f"{scheme.lower()}://{rest}", without_credentials(given)
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, UnicodeError) as error:
        said = "write / and ? in a password as %2F and %3F" if "@" in url else error
        raise ValueError(f"{shown!r} is not a URL: {said}") from None
    if parsed.scheme not in _SCHEMES:
        raise ValueError(f"{shown!r} is not a URL of a server: {_WRITE}")
    if not parsed.host:
        raise ValueError(f"{shown!r} names no host: {_WRITE}")
    if not _HOST.fullmatch(parsed.host):
        raise ValueError(f"{shown!r} has a host with characters that hosts do not have: {_WRITE}")
    if parsed.port is not None and not 0 < parsed.port <= _PORT_MAX:
        raise ValueError(f"{shown!r} has a port that is not from 1 to {_PORT_MAX}")
    if "?" in url or "#" in url:
        raise ValueError(f"{shown!r} has more than an address, from its ? or # on: {_WRITE}")
    return url.rstrip("/")


class Addresses:
    """Servers of which one is asked first, until it fails."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = list(urls)
        self._first = 0

    def in_order(self) -> list[str]:
        """Return all, the one to be asked first at the front."""
        return self._urls[self._first :] + self._urls[: self._first]

    def failed(self, url: str, error: Exception) -> bool:
        """Take note that a server failed; return whether to ask the next for the same.

        After one that leaves in doubt what was done, the next is asked first from now on.
        """
        was_not_done = isinstance(error, ServerUnreachable | NoLeader | Stopping)
        if was_not_done or isinstance(error, OutcomeUnknown):
            self.make_way(url)
        return was_not_done

    def make_way(self, url: str) -> None:
        """Ask the next one first from now on, where `url` was."""
        if url == self._urls[self._first]:
            self._first = (self._first + 1) % len(self._urls)
