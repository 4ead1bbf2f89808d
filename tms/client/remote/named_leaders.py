"""The leaders that servers name, and which of them a client asks directly.

An address that the user gave to the client may be asked. Any other only if the client is `direct`,
because it may be unreachable from the client, or a stranger's. Then its scheme and kind of network
must be those of the server that names it, and if the client has credentials, `/v1/cluster` must
name it too.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from time import monotonic

import msgspec

from tms.client.remote.access import Access
from tms.client.remote.addresses import parse_addresses
from tms.core.errors import InvalidRequest
from tms.core.text.hosts import is_loopback
from tms.outgoing.url import Url, parse_url

_ADDRESS_CHARS_MAX = 512
_ASK_AGAIN_S = 10.0


class _Instance(msgspec.Struct):
    address: str


class _Cluster(msgspec.Struct):
    instances: list[_Instance]


_cluster_decoder = msgspec.json.Decoder(_Cluster)


class NamedLeaders:
    """The addresses at which a client may ask a leader."""

    def __init__(self, addresses: Sequence[str], access: Access, *, is_direct: bool) -> None:
        """Store the addresses that the user gave, and the credentials for them."""
        self._given: dict[Url, str] = {}
        for url in addresses:
            self._given.setdefault(parse_url(url).without_user(), url)
        self._access = access
        self._trusts_proxies = access.trusts_proxies(addresses)
        self._has_credentials = access.has_credentials(addresses)
        self._is_direct = is_direct
        self._confirmed: set[Url] = set()
        self.is_in_doubt = False
        """Whether the leader named last may be asked only after `confirm` has seen it."""
        self._next_ask_s = 0.0

    def url_of(self, leader_address: str, server_url: str) -> str | None:
        """Return the URL at which to ask the leader that a server names; None if not to ask.

        `server_url` is the URL of the server that names it.
        """
        self.is_in_doubt = False
        leader, by = _parsed(leader_address), parse_url(server_url)
        if leader is None or (by.scheme == "https" and leader.scheme != "https"):
            return None
        place = leader.without_user()
        if place in self._given:
            return self._given[place]
        if not self._is_direct or not self._may_be(leader, by):
            return None
        if self._has_credentials and place not in self._confirmed:
            self.is_in_doubt = True
            return None
        return str(replace(place, userinfo=by.userinfo))

    def _may_be(self, leader: Url, by: Url) -> bool:
        """Whether it is safe to contact a server that the user did not list."""
        if leader.userinfo or leader.scheme != by.scheme:
            return False
        url = str(leader)
        if is_loopback(leader.host) and not is_loopback(by.host):
            return False  # this machine's loopback, which another machine cannot mean
        try:
            self._access.check([url])
        except InvalidRequest:
            return False  # it would get the credentials unencrypted
        return not self._trusts_proxies or self._access.trusts_proxies([url])

    def is_time_to_ask(self) -> bool:
        """Whether to ask `/v1/cluster` again: not for each leader that a server names."""
        now_s = monotonic()
        is_time = now_s >= self._next_ask_s
        if is_time:
            self._next_ask_s = now_s + _ASK_AGAIN_S
        return is_time

    def confirm(self, cluster: bytes) -> None:
        """Record the servers that an answer of `/v1/cluster` names; ignore any other answer."""
        try:
            instances = _cluster_decoder.decode(cluster).instances
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return
        parsed = [_parsed(instance.address) for instance in instances]
        self._confirmed = {url.without_user() for url in parsed if url is not None}


@lru_cache(64)
def _parsed(named: str) -> Url | None:
    """Return the URL of one server; None if it is not valid."""
    if len(named) > _ADDRESS_CHARS_MAX or "," in named or not named.isascii():
        return None
    try:
        return parse_url(parse_addresses(named)[0])
    except ValueError:
        return None
