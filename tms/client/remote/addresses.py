"""The addresses of the servers that one URL names, and which of them to ask first.

`http://a:11015,b:11015` names two servers of a cluster. Any of them answers for all. If one
certainly did nothing, because it is unreachable, is stopping, or knows no leader, the client asks
the next one. A server that is not the leader forwards the request: from then on the client asks the
leader first for the same thing, if its URL is known, and the next server otherwise. There may be
several leaders, each of some topics; the client learns which from answers only.
"""

from collections.abc import Callable, Sequence
from time import monotonic

from tms.client.remote.routes import Keys, RouteKey
from tms.client.remote.transport_errors import was_not_sent
from tms.core.errors import NoLeader, NotTms, OutcomeUnknown, ServerUnreachable, Stopping
from tms.core.text.credentials import without_credentials
from tms.outgoing.url import PORTS, InvalidUrl, parse_url

KEPT_MAX = 10_000
"""The most leaders remembered for topics, for namespaces, and for transactions."""
NOT_ASKED_S = 30.0
"""For how long a server that accepted no connection is not asked as a leader, whichever server
names it: each attempt may take five seconds."""

_WRITE = "write http://HOST:PORT"


def is_of_servers(url: str) -> bool:
    """Whether a URL has the scheme of a server's, valid or not."""
    return url.strip().lower().startswith(tuple(f"{scheme}://" for scheme in PORTS))


def parse_addresses(url: str) -> list[str]:
    """Return the URL of each server that `url` names. Raises `ValueError` if one is not valid.

    Spaces around one and capital letters in its scheme do not matter.
    """
    parts = [part.strip() for part in url.split(",")]
    scheme = parts[0].partition("://")[0]
    return [_parsed(part if "://" in part else f"{scheme}://{part}") for part in parts]


def _parsed(text: str) -> str:
    scheme, _, rest = text.partition("://")
    url, shown = f"{scheme.lower()}://{rest}", without_credentials(text)
    if url.partition("://")[0] not in PORTS:
        raise ValueError(f"{shown!r} is not a URL of a server: {_WRITE}")
    try:
        parse_url(url)
    except InvalidUrl as error:
        said = "write / and ? in a password as %2F and %3F" if "@" in url else error
        raise ValueError(f"{shown!r} is not a URL: {said} ({_WRITE})") from None
    if "?" in url or "#" in url:
        raise ValueError(f"{shown!r} has more than an address, from its ? or # on: {_WRITE}")
    return url.rstrip("/")


class Addresses:
    """The order in which to ask servers: the leader first if it is known, else any until it fails.

    Used in one event loop.
    """

    def __init__(self, urls: Sequence[str], clock_s: Callable[[], float] = monotonic) -> None:
        self._urls = list(urls)
        self._first = 0
        self._leaders: dict[str, dict[str, str]] = {}
        """The URLs of leaders, by the kind and the name of what they lead, oldest first."""
        self._clock_s = clock_s
        self._not_before_s: dict[str, float] = {}
        """Until when a server is not asked as a leader, because it accepted no connection."""

    def in_order(self, keys: Keys = ()) -> list[str]:
        """Return all servers in the order in which to ask them for what `keys` name."""
        urls = self._urls[self._first :] + self._urls[: self._first]
        leader = next(filter(None, map(self._leader, keys)), None)
        if leader is None:
            return urls
        return [leader, *(url for url in urls if url != leader)]

    def _leader(self, key: RouteKey) -> str | None:
        return self._leaders.get(key.kind, {}).get(key.name)

    def is_given(self, url: str) -> bool:
        """Whether the caller named it, not just another server."""
        return url in self._urls

    def answered(self, keys: Keys, url: str) -> None:
        """Record that a server answered itself: it is asked again if no other leader is known."""
        for key in keys:
            if self._leader(key) is None:
                self._put(key, url)

    def forwarded(self, keys: Keys, url: str, leader: str | None) -> None:
        """Record that the server at `url` forwarded a request to the leader at another URL.

        If that URL is not known, the next server is asked first from now on.
        """
        if leader is None and url in self._urls:
            leader = self._next(url)
        elif leader is not None and self._clock_s() < self._not_before_s.get(leader, 0.0):
            leader = None
        for number, key in enumerate(keys):
            if number == 0 or self._leader(key) in (None, url):
                self._forget(key) if leader is None else self._put(key, leader)
        if leader in self._urls and url == self._urls[self._first]:
            self._first = self._urls.index(leader)

    def _next(self, url: str) -> str:
        return self._urls[(self._urls.index(url) + 1) % len(self._urls)]

    def same(self, keys: Keys, other: Keys) -> None:
        """Ask the same server first for `keys` as for `other`."""
        for key in keys:
            self._put(key, self.in_order(other)[0])

    def _put(self, key: RouteKey, leader: str) -> None:
        leaders = self._leaders.setdefault(key.kind, {})
        leaders.pop(key.name, None)
        leaders[key.name] = leader
        if len(leaders) > KEPT_MAX:
            del leaders[next(iter(leaders))]

    def _forget(self, key: RouteKey) -> None:
        self._leaders.get(key.kind, {}).pop(key.name, None)

    def failed(self, url: str, error: Exception, keys: Keys = ()) -> bool:
        """Record that a server failed; return whether to send the same request to the next one.

        If the outcome of the request is unknown, the next server is asked first from now on.
        """
        was_not_done = isinstance(error, ServerUnreachable | NoLeader | Stopping)
        is_stranger = not self.is_given(url) and isinstance(error, NotTms)
        if not was_not_done and not is_stranger and not isinstance(error, OutcomeUnknown):
            return False
        if url == self._urls[self._first]:
            self._first = (self._first + 1) % len(self._urls)
        if isinstance(error, ServerUnreachable) or is_stranger:
            now_s = self._clock_s()
            later = {other: end_s for other, end_s in self._not_before_s.items() if end_s > now_s}
            self._not_before_s = {**later, url: now_s + NOT_ASKED_S}
        if isinstance(error, ServerUnreachable | Stopping) or is_stranger:
            self._forget_all_of(url)
        for key in keys:
            if self._leader(key) == url:
                self._forget(key)
        return was_not_done or (is_stranger and was_not_sent(error))

    def _forget_all_of(self, url: str) -> None:
        for leaders in self._leaders.values():
            for name in [name for name, leader in leaders.items() if leader == url]:
                del leaders[name]
