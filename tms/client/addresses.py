"""The addresses of the servers that one URL names, and which of them is asked first.

`http://a:11015,b:11015` names two servers of a cluster. Any of them answers for all; where one
certainly did nothing, because it is not there, stops, or knows no leader, the next one is asked.
One that only forwards to the leader makes way to the next too, so that the leader is soon asked
itself.
"""

from collections.abc import Sequence

import httpx

from tms.core.credentials import without_credentials
from tms.core.errors import NoLeader, OutcomeUnknown, ServerUnreachable, Stopping


def parse_addresses(url: str) -> list[str]:
    """Return the URL of each server that `url` names. Raises `ValueError` where one is none."""
    parts = url.split(",")
    scheme = parts[0].partition("://")[0]
    whole = [part if "://" in part else f"{scheme}://{part}" for part in parts]
    for part in whole:
        try:
            parsed = httpx.URL(part)
        except httpx.InvalidURL as error:
            said = "write / and ? in a password as %2F and %3F" if "@" in part else error
            raise ValueError(f"{without_credentials(part)!r} is not a URL: {said}") from None
        if not parsed.host:
            shown = without_credentials(part)
            raise ValueError(f"{shown!r} names no host: write http://HOST:PORT")
    return [part.rstrip("/") for part in whole]


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
