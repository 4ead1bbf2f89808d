"""The leaders that servers name, and which of them a client asks itself.

An address that was given to the client is asked. Any other only if the client is `direct`, because
it may not be reachable from where the client is, or be a stranger's: then one at which a server of
that scheme and kind of network may be, and if the client has credentials, one that `/v1/cluster`
has named too.
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

    def __init__(self, given: Sequence[str], access: Access, *, is_direct: bool) -> None:
        """Know the servers that were given, and as whom they are asked."""
        self._given: dict[Url, str] = {}
        for url in given:
            self._given.setdefault(parse_url(url).without_user(), url)
        self._access = access
        self._trusts_proxies = access.trusts_proxies(given)
        self._has_credentials = access.has_credentials(given)
        self._is_direct = is_direct
        self._confirmed: set[Url] = set()
        self.is_in_doubt = False
        """Whether the last one that was named is asked only once `confirm` has named it."""
        self._next_ask_s = 0.0

    def url_of(self, named: str, asked: str) -> str | None:
        """Return the URL by which to ask the leader that a server named, None: it is not asked.

        `asked` is the URL of the server that named it.
        """
        self.is_in_doubt = False
        leader, by = _parsed(named), parse_url(asked)
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
        """Whether a server that was not given may be asked without harm."""
        if leader.userinfo or leader.scheme != by.scheme:
            return False
        url = str(leader)
        if is_loopback(leader.host) and not is_loopback(by.host):
            return False  # this machine, of which other machines know nothing
        try:
            self._access.check([url])
        except InvalidRequest:
            return False  # it would get the credentials unencrypted
        return not self._trusts_proxies or self._access.trusts_proxies([url])

    def is_time_to_ask(self) -> bool:
        """Whether to look again for those in doubt: not for each that somebody names."""
        now_s = monotonic()
        is_time = now_s >= self._next_ask_s
        if is_time:
            self._next_ask_s = now_s + _ASK_AGAIN_S
        return is_time

    def confirm(self, cluster: bytes) -> None:
        """Take note of the servers that an answer of `/v1/cluster` names; others of none."""
        try:
            instances = _cluster_decoder.decode(cluster).instances
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return
        parsed = [_parsed(instance.address) for instance in instances]
        self._confirmed = {url.without_user() for url in parsed if url is not None}


@lru_cache(64)
def _parsed(named: str) -> Url | None:
    """Return the URL of one server; None if it is not a valid one."""
    if len(named) > _ADDRESS_CHARS_MAX or "," in named or not named.isascii():
        return None
    try:
        return parse_url(parse_addresses(named)[0])
    except ValueError:
        return None
